// Fills in OrtCustomOp for canonical nodes, including their shape inference.
#include "runtime/pyop_operator.h"

#include <climits>
#include <utility>

#include "adapter/attributes.h"
#include "adapter/calls.h"
#include "adapter/cuda_services.h"
#include "adapter/shapes.h"
#include "base/element_type.h"
#include "bridge/interpreter.h"
#include "model/runtime_limits.h"
#include "runtime/pyop_kernel.h"
#include "runtime/pyop_spec.h"

namespace opgraft::ort {
namespace {

const PyOp& PyOpOf(const OrtCustomOp* self) { return *reinterpret_cast<const PyOp*>(self); }

/// Input 0 has the operator's type, the others may have any; likewise the leading outputs.
std::size_t InputCount(const OrtCustomOp* self) { return PyOpOf(self).type == 0 ? 1 : 2; }
int InputType(const OrtCustomOp* self, std::size_t index) {
  return index == 0 ? PyOpOf(self).type : 0;
}
int InputCharacteristic(const OrtCustomOp* self, std::size_t index) {
  return index + 1 == InputCount(self) ? kVariadic : kRequired;
}
std::size_t OutputCount(const OrtCustomOp* self) { return PyOpOf(self).leading + 1; }
int OutputType(const OrtCustomOp* self, std::size_t index) {
  const bool has_type = PyOpOf(self).leading == 0 || index < PyOpOf(self).leading;
  return has_type ? PyOpOf(self).type : 0;
}
int OutputCharacteristic(const OrtCustomOp* self, std::size_t index) {
  return index + 1 == OutputCount(self) ? kVariadic : kOptional;
}
int OutputHomogeneity(const OrtCustomOp* self) {
  return PyOpOf(self).type != 0 && PyOpOf(self).leading == 0 ? 1 : 0;
}

OrtStatus* MakeKernel(const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info,
                      void** kernel) {
  return Guarded(api, [&] {
    std::unique_ptr<PyOpKernel> made;
    Status status = PyOpKernel::Create(PyOpOf(self).runtime, info, *PyOpOf(self).policy,
                                       PyOpOf(self).isolation.get(), PyOpOf(self).device, &made);
    *kernel = made.release();
    return status;
  });
}

/// Adds the sizes that the node declares for an output to those of its shape rule.
void Join(const pyop::DeclaredShape& declared, SymbolicShape* shape) {
  if (!declared) return;
  if (!*shape) shape->emplace(declared->size());
  if ((*shape)->size() != declared->size()) return;  // an error when the kernel is created
  for (std::size_t i = 0; i < declared->size(); ++i) {
    if ((**shape)[i].size < 0 && (*declared)[i] >= 0) (**shape)[i] = {(*declared)[i], ""};
  }
}

/// Sets the shapes that the node declares and that its shape rule gives.
Status WriteShapes(const PyOp& self, OrtShapeInferContext* context, const pyop::Spec& spec,
                   int first_type, std::vector<SymbolicShape> shapes) {
  shapes.resize(spec.output_types.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (i < spec.output_shapes.size()) Join(spec.output_shapes[i], &shapes[i]);
    if (!shapes[i] || shapes[i]->empty()) continue;  // the runtime takes a scalar for unknown
    const auto type = static_cast<int>(spec.output_types[i]);
    const std::string& who = spec.IsDeclared() ? spec.operator_name : spec.class_name;
    Status status = WriteShape(self.runtime.api, context, who, spec.OutputPlace(i),
                               type != 0 ? type : first_type, *shapes[i]);
    if (!status.ok()) return status;
  }
  return Status();
}

/// Sets the shapes that the node and its shape rule give, if they give at least a rank. The runtime
/// drops errors here; they are reported again when the kernel is created.
Status InferShapes(const PyOp& self, OrtShapeInferContext* context) {
  const OrtApi* const api = self.runtime.api;
  pyop::Spec spec;
  std::size_t inputs = 0;
  Status status = ReadSpec(InferenceAttributes(self.runtime, context), &spec);
  if (!status.ok()) return status;
  status = FromRuntime(api, ShapeInferContext_GetInputCount(api, context, &inputs));
  if (status.ok()) status = Check(spec, inputs, spec.output_types.size());
  if (!status.ok()) return status;
  // A program without Python is not given one by a session whose operators run elsewhere.
  const bool has_rule =
      spec.IsDeclared() &&
      (pyop::IsPythonRunning() || (self.isolation == nullptr && self.policy->Allows(spec.module)));
  if (!spec.IsDeclared()) return WriteShapes(self, context, spec, 0, {});

  std::vector<SymbolicShape> shapes(spec.Places(inputs));
  int first = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t place = spec.InputPlace(i);
    if (place == pyop::kUnknown) continue;
    int type = 0;
    status = ReadShape(api, context, static_cast<std::size_t>(place), &type, &shapes[i]);
    if (!status.ok()) return status;
    if (place == 0) first = type;
  }
  const pyop::Bridge* bridge = nullptr;
  std::vector<SymbolicShape> outputs;
  if (has_rule) status = pyop::GetBridge(&bridge);
  if (has_rule && status.ok()) {
    status = bridge->infer_shapes(spec, *self.policy, shapes, &outputs);
  }
  if (!status.ok()) return status;
  return WriteShapes(self, context, spec, first, std::move(outputs));
}

}  // namespace

PyOp::PyOp(const Runtime& host, std::shared_ptr<const Policy> allowed,
           std::shared_ptr<const workers::Options> isolates, std::string called, int of_type,
           std::size_t leads, PyOpDevice on)
    : runtime(host),
      policy(std::move(allowed)),
      isolation(std::move(isolates)),
      name(std::move(called)),
      type(of_type),
      leading(leads),
      device(on) {
  GetName = [](const OrtCustomOp* self) { return PyOpOf(self).name.c_str(); };
  GetExecutionProviderType = [](const OrtCustomOp* self) {
    return PyOpOf(self).device == PyOpDevice::kGpu ? kCudaProvider : nullptr;
  };
  GetInputType = InputType;
  GetInputTypeCount = InputCount;
  GetInputCharacteristic = InputCharacteristic;
  GetOutputType = OutputType;
  GetOutputTypeCount = OutputCount;
  GetOutputCharacteristic = OutputCharacteristic;
  GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return 0; };
  GetVariadicInputMinArity = GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
  GetVariadicOutputHomogeneity = OutputHomogeneity;
  GetStartVersion = [](const OrtCustomOp*) { return 1; };
  GetEndVersion = [](const OrtCustomOp*) { return INT_MAX; };
  CreateKernelV2 = MakeKernel;
  KernelComputeV2 = ComputePyOp;
  KernelDestroy = DestroyPyOp;
  if (runtime.InfersShapes()) {
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) {
      return Guarded(PyOpOf(self).runtime.api, [&] { return InferShapes(PyOpOf(self), context); });
    };
  }
}

PyOpFamily MakePyOpFamily(const Runtime& runtime, const std::shared_ptr<const Policy>& policy,
                          const std::shared_ptr<const workers::Options>& isolation) {
  PyOpFamily family;
  const std::int64_t last_type = model::LimitsOf(runtime.version).last_type;
  for (const PyOpDevice device : {PyOpDevice::kCpu, PyOpDevice::kGpu, PyOpDevice::kMissingGpu}) {
    if (device == PyOpDevice::kGpu && runtime.version < kOldestCudaRuntime) continue;
    const std::string name = device == PyOpDevice::kCpu ? pyop::kOpType : pyop::kGpuOpType;
    family.push_back(std::make_unique<PyOp>(runtime, policy, isolation, name, 0, 0, device));
    for (int type = 1; type <= last_type; ++type) {
      const ElementType* const known = FindElementType(type);
      if (known == nullptr || !known->is_carried) continue;
      if (device != PyOpDevice::kCpu && (type == kString || known->IsPacked())) continue;
      for (std::size_t leading = 0; leading <= pyop::kMostLeading; ++leading) {
        const std::string like =
            name + pyop::kLikeEnding + (leading > 0 ? std::to_string(leading) : "");
        family.push_back(
            std::make_unique<PyOp>(runtime, policy, isolation, like, type, leading, device));
      }
    }
  }
  return family;
}

}  // namespace opgraft::ort
