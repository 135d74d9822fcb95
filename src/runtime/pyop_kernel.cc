// Reads the node's attributes once, when the kernel is created; a run only handles tensors.
#include "runtime/pyop_kernel.h"

#include <array>
#include <memory_resource>
#include <string>
#include <utility>

#include "adapter/attributes.h"
#include "adapter/calls.h"
#include "adapter/cuda_services.h"
#include "adapter/device.h"
#include "adapter/running.h"
#include "adapter/tensors.h"
#include "base/element_type.h"
#include "bridge/interpreter.h"
#include "runtime/pyop_spec.h"
#include "workers/pool.h"
#include "workers/remote_operator.h"

namespace opgraft::ort {
namespace {

Status CheckKinds(const KernelAttributes& attributes, const std::string& node) {
  namespace name = pyop::attribute;
  const std::string who = "node '" + ReadableName(node) + "'";
  Status status = attributes.CheckTexts(
      who, {name::kModule, name::kClassName, name::kCompute, name::kArguments, name::kOperator});
  if (!status.ok()) return status;
  return attributes.CheckIntegers(who, {name::kInputTypes, name::kOutputTypes, name::kInputPlaces,
                                        name::kOutputPlaces, name::kOutputShapes});
}

/// Fills in the types of a declared operator's node, which are those of the graph.
Status FillTypes(const OrtApi* api, const OrtKernelInfo* info, std::size_t inputs,
                 pyop::Spec* spec) {
  if (!spec->IsDeclared()) return Status();
  int first = 0;
  spec->input_types.assign(spec->Places(inputs), 0);
  for (std::size_t i = 0; i < spec->input_types.size(); ++i) {
    const std::int64_t place = spec->InputPlace(i);
    if (place == pyop::kUnknown) continue;
    OrtTypeInfo* type_info = nullptr;
    OrtStatus* got =
        KernelInfo_GetInputTypeInfo(api, info, static_cast<std::size_t>(place), &type_info);
    GraphValue value;
    Status status = ReadValue(api, got, type_info, spec->Who() + ": an input", &value);
    if (!status.ok()) return status;
    spec->input_types[i] = value.element_type;
    if (place == 0) first = value.element_type;
  }
  for (std::int64_t& type : spec->output_types) {
    if (type == 0) type = first;
  }
  return Status();
}

/// Adds the sizes that the graph knows to those that the node declares.
void Join(const std::vector<std::int64_t>& sizes, pyop::DeclaredShape* shape) {
  if (!*shape) *shape = sizes;
  if ((*shape)->size() != sizes.size()) return;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if ((**shape)[i] < 0) (**shape)[i] = sizes[i] < 0 ? pyop::kUnknown : sizes[i];
  }
}

/// The runtime allocates memory by the type that an output has in the graph. The operator writes
/// elements of the type that the node declares, so that the two must agree. Also records the sizes
/// that the shape rule has given while the model was loaded: the operator must keep to them.
Status CheckOutputs(const OrtApi* api, const OrtKernelInfo* info, pyop::Spec* spec) {
  for (std::size_t i = 0; i < spec->output_types.size(); ++i) {
    OrtTypeInfo* type_info = nullptr;
    OrtStatus* got = KernelInfo_GetOutputTypeInfo(api, info, spec->OutputPlace(i), &type_info);
    const std::string who = spec->Who() + ": output " + std::to_string(i);
    GraphValue value;
    Status status = ReadValue(api, got, type_info, who, &value);
    if (!status.ok()) return status;
    if (value.element_type != 0 && value.element_type != spec->output_types[i]) {
      return Status::Model(who + " is " + ElementTypeName(spec->output_types[i]) +
                           (spec->IsDeclared() ? " by its declaration" : " in 'output_types'") +
                           ", but " + ElementTypeName(value.element_type) + " in the graph");
    }
    if (!spec->IsDeclared() || value.sizes.empty()) continue;
    spec->output_shapes.resize(spec->output_types.size());
    Join(value.sizes, &spec->output_shapes[i]);
  }
  return Status();
}

/// The GPU of the provider that a node is assigned to.
class ProviderGpu final : public pyop::Gpu {
 public:
  explicit ProviderGpu(const CudaProvider* provider) : provider_(provider) {}

  int index() const override { return provider_->device; }
  void* Stream() const override { return provider_->stream(provider_); }
  void* Allocate(std::size_t bytes) const override { return provider_->allocate(provider_, bytes); }
  void Free(void* memory) const override { provider_->free(provider_, memory); }
  Status Copy(void* to, const void* from, std::size_t bytes) const override {
    const int error = provider_->copy(provider_, to, from, bytes);
    if (error == 0) return Status();
    return Status::Error("CUDA cannot copy " + std::to_string(bytes) +
                         " bytes on the device: error " + std::to_string(error));
  }

 private:
  const CudaProvider* const provider_;
};

/// Finds the GPU of a node that needs one.
Status FindGpu(const Runtime& runtime, const OrtKernelInfo* info, const pyop::Spec& spec,
               PyOpDevice device, std::unique_ptr<pyop::Gpu>* gpu) {
  if (spec.on_gpu != (device != PyOpDevice::kCpu)) {
    return Status::Model(spec.Who() +
                         ": its attribute 'format' does not match its operator type. Fix: prepare "
                         "the model again from its original");
  }
  if (!spec.on_gpu) return Status();
  const CudaProvider* const provider =
      device == PyOpDevice::kGpu ? FindCudaProvider(runtime, info) : nullptr;
  if (provider != nullptr) {
    *gpu = std::make_unique<ProviderGpu>(provider);
    return Status();
  }
  return GpuMissing(runtime, spec.Who() + ": it runs on GPUs alone");
}

/// The tensors of one run. In usual cases it needs no heap memory.
class RuntimeCall final : public pyop::Call {
 public:
  RuntimeCall(const Runtime& runtime, const pyop::Spec& spec, OrtKernelContext* context)
      : runtime_(runtime), api_(runtime.api), spec_(spec), context_(context) {}

  Status ReadInputs(std::size_t inputs) {
    const pyop::Spec& spec = spec_;
    views_.resize(spec.Places(inputs));
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const std::int64_t place = spec.InputPlace(i);
      if (place == pyop::kUnknown) continue;
      Status status = ReadInput(static_cast<std::size_t>(place), &views_[i]);
      if (!status.ok()) return status;
      if (!spec.input_types.empty() && views_[i].element_type != spec.input_types[i]) {
        return Status::Model(spec.Who() + ": input " + std::to_string(i) + " is " +
                             ElementTypeName(views_[i].element_type) + ", but 'input_types' says " +
                             ElementTypeName(spec.input_types[i]));
      }
    }
    return Status();
  }

  std::span<const pyop::TensorView> inputs() const override { return views_; }

  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    *data = nullptr;
    OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetOutput(api_, context_, spec_.OutputPlace(index),
                                                shape.data(), shape.size(), &value);
    if (status == nullptr && value != nullptr) status = GetTensorMutableData(api_, value, data);
    if (status == nullptr && value != nullptr && *data == nullptr && Elements(shape) > 0) {
      return Status::Error("there is no memory left for it");
    }
    return FromRuntime(api_, status);
  }

  Status ReadStrings(std::size_t index, std::string* storage,
                     std::vector<std::string_view>* strings) override {
    const OrtValue* value = nullptr;
    Status status = FromRuntime(api_, KernelContext_GetInput(api_, context_, Place(index), &value));
    if (!status.ok()) return status;
    std::size_t elements = 1;
    for (const std::int64_t length : views_[index].shape) {
      elements *= static_cast<std::size_t>(length);
    }
    return ReadTexts(api_, value, elements, storage, strings);
  }

  Status StoreStrings(std::size_t index, std::span<const std::int64_t> shape,
                      std::span<const std::string_view> strings) override {
    OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetOutput(api_, context_, spec_.OutputPlace(index),
                                                shape.data(), shape.size(), &value);
    for (std::size_t i = 0; status == nullptr && value != nullptr && i < strings.size(); ++i) {
      status = StoreText(api_, value, i, strings[i]);
    }
    return FromRuntime(api_, status);
  }

  Status IsUnwanted(std::size_t index, bool* is_unwanted) override {
    constexpr std::int64_t kNothing = 0;
    OrtValue* value = nullptr;
    OrtStatus* status =
        KernelContext_GetOutput(api_, context_, spec_.OutputPlace(index), &kNothing, 1, &value);
    *is_unwanted = status == nullptr && value == nullptr;
    return FromRuntime(api_, status);
  }

 private:
  /// Returns the index of the node's input for an argument that is present.
  std::size_t Place(std::size_t argument) const {
    return static_cast<std::size_t>(spec_.InputPlace(argument));
  }

  Status ReadInput(std::size_t index, pyop::TensorView* view) {
    const OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetInput(api_, context_, index, &value);
    if (status != nullptr || value == nullptr) return FromRuntime(api_, status);
    TensorParts parts;
    Status read = ReadTensor(runtime_, value, &memory_, &parts);
    if (read.ok() && parts.data == nullptr) {
      return Status::Error(spec_.Who() + ": the node's input " + std::to_string(index) +
                           " has no memory, because there was none left");
    }
    *view = {parts.data, parts.element_type, parts.shape};
    return read;
  }

  const Runtime& runtime_;
  const OrtApi* const api_;
  const pyop::Spec& spec_;
  OrtKernelContext* const context_;
  std::array<std::byte, 1024> buffer_;
  std::pmr::monotonic_buffer_resource memory_{buffer_.data(), buffer_.size()};
  std::pmr::vector<pyop::TensorView> views_{&memory_};
};

}  // namespace

Status PyOpKernel::Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                          const workers::Options* isolation, PyOpDevice device,
                          std::unique_ptr<PyOpKernel>* kernel) {
  pyop::Spec spec;
  Status status = ReadNodeName(runtime.api, info, &spec.node);
  const KernelAttributes attributes(runtime, info);
  if (status.ok()) status = CheckKinds(attributes, spec.node);
  if (status.ok()) status = ReadSpec(attributes, &spec);
  return status.ok() ? Create(runtime, info, std::move(spec), policy, isolation, device, kernel)
                     : status;
}

Status PyOpKernel::Create(const Runtime& runtime, const OrtKernelInfo* info, pyop::Spec spec,
                          const Policy& policy, const workers::Options* isolation,
                          PyOpDevice device, std::unique_ptr<PyOpKernel>* kernel) {
  const OrtApi* const api = runtime.api;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  Status status = FromRuntime(api, KernelInfo_GetInputCount(api, info, &inputs));
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetOutputCount(api, info, &outputs));
  if (status.ok()) status = Check(spec, inputs, outputs);
  std::unique_ptr<pyop::Gpu> gpu;
  if (status.ok()) status = FindGpu(runtime, info, spec, device, &gpu);
  if (status.ok()) status = FillTypes(api, info, inputs, &spec);
  if (status.ok()) status = CheckOutputs(api, info, &spec);
  if (!status.ok()) return status;
  // Operators that this process's own Python code has declared, or written into a model, need no
  // allowance. The bridge knows which these are, and refuses the others.
  const bool may_be_known =
      pyop::IsPythonRunning() && (spec.IsDeclared() || Policy::RunsWhatModelsHold(spec.module));
  if (!may_be_known && !policy.Allows(spec.module)) {
    return policy.Refusal(spec.Who(), spec.module);
  }

  std::unique_ptr<PyOpKernel> made(new PyOpKernel(runtime, std::move(spec), inputs));
  made->gpu_ = std::move(gpu);
  const Running making([&] { return "the creation of " + made->spec_.Who(); });
  status = made->CreateIsolated(policy, isolation);
  if (status.ok() && made->operator_ == nullptr) {
    const pyop::Bridge* bridge = nullptr;
    if (status = pyop::GetBridge(&bridge); !status.ok()) {
      return Status(status.kind(), made->spec_.Who() + ": " + status.message());
    }
    status = bridge->create(made->spec_, policy, made->gpu_.get(), &made->operator_);
  }
  if (status.ok()) *kernel = std::move(made);
  return status;
}

Status PyOpKernel::CreateIsolated(const Policy& policy, const workers::Options* isolation) {
  pyop::Spec spec = spec_;
  std::string allow = policy.ToText();
  // A program without Python in it needs none for a session whose operators run elsewhere.
  if (spec.IsDeclared() && (isolation == nullptr || pyop::IsPythonRunning())) {
    const pyop::Bridge* bridge = nullptr;
    Status status = pyop::GetBridge(&bridge);
    std::shared_ptr<const Schema> schema;
    if (!status.ok() && isolation == nullptr) {
      return Status(status.kind(), spec.Who() + ": " + status.message());
    }
    if (bridge != nullptr) {
      status = bridge->find_schema(spec.Who(), spec.operator_name, spec.module, policy, &schema);
    }
    if (bridge != nullptr && !status.ok()) return status;
    if (schema != nullptr) {
      // What this process has declared itself may run, and is found again by its module.
      spec.module = schema->module;
      allow += (allow.empty() ? "" : ",") + spec.module;
    }
    static const workers::Options kOwn;
    if (isolation == nullptr && schema != nullptr && schema->is_isolated) isolation = &kOwn;
  }
  if (isolation == nullptr) return Status();
  if (!spec.IsDeclared() && !policy.Allows(spec.module)) {
    return policy.Refusal(spec.Who(), spec.module);
  }
  return workers::CreateRemote(spec, allow, *isolation, workers::SessionInMaking(), &operator_);
}

Status PyOpKernel::Compute(OrtKernelContext* context) const {
  const Running running([this] { return spec_.Who(); });
  RuntimeCall call(runtime_, spec_, context);
  Status status = call.ReadInputs(inputs_);
  return status.ok() ? operator_->Compute(call) : status;
}

Status ReadNodeName(const OrtApi* api, const OrtKernelInfo* info, std::string* name) {
  const auto get = [&](char* out, std::size_t* size) {
    return KernelInfo_GetNodeName(api, info, out, size);
  };
  return ReadText(api, get, name);
}

OrtStatus* ComputePyOp(void* kernel, OrtKernelContext* context) {
  const auto* pyop_kernel = static_cast<const PyOpKernel*>(kernel);
  return Guarded(pyop_kernel->api(), [&] { return pyop_kernel->Compute(context); });
}

void DestroyPyOp(void* kernel) { delete static_cast<PyOpKernel*>(kernel); }

}  // namespace opgraft::ort
