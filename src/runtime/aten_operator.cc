// Fills in OrtCustomOp for ATen nodes, including their shape inference.
#include "runtime/aten_operator.h"

#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "adapter/attributes.h"
#include "adapter/calls.h"
#include "adapter/cuda_services.h"
#include "adapter/shapes.h"
#include "aten/encoding.h"
#include "model/aten_node.h"
#include "runtime/aten_gpu_kernel.h"
#include "runtime/aten_kernel.h"

namespace opgraft::ort {
namespace {

const AtenOperator& AtenOperatorOf(const OrtCustomOp* self) {
  return *reinterpret_cast<const AtenOperator*>(self);
}

/// Makes the operator create and run kernels of this class.
template <class Kernel>
void UseKernel(AtenOperator* self) {
  self->CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                            void** kernel) {
    return Guarded(api, [&] {
      std::unique_ptr<Kernel> made;
      Status status =
          Kernel::Create(AtenOperatorOf(op).runtime, info, *AtenOperatorOf(op).policy, &made);
      *kernel = made.release();
      return status;
    });
  };
  self->KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
    const auto* aten_kernel = static_cast<const Kernel*>(kernel);
    return Guarded(aten_kernel->api(), [&] { return aten_kernel->Compute(context); });
  };
  self->KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
}

/// Sets the types and shapes that the node declares for its outputs. The runtime drops errors here;
/// they are reported again when the kernel is created.
Status InferShapes(const AtenOperator& self, OrtShapeInferContext* context) {
  const OrtApi* const api = self.runtime.api;
  aten::NodeText text;
  Status status = ReadAtenNode(InferenceAttributes(self.runtime, context), &text);
  std::vector<aten::WrittenResult> results;
  if (status.ok()) status = aten::ReadResults(text.outputs, text.Who(), &results);
  if (!status.ok()) return status;
  const std::vector<aten::NodeOutput> outputs = aten::OutputsOf(results);
  for (std::size_t i = 0; i < outputs.size() && status.ok(); ++i) {
    const SymbolicShape& shape = outputs[i].shape;
    if (!shape || shape->empty()) continue;
    status = WriteShape(api, context, "aten", i, outputs[i].element_type, *shape);
  }
  return status;
}

}  // namespace

AtenOperator::AtenOperator(const Runtime& host, std::shared_ptr<const Policy> allowed,
                           bool is_for_gpu)
    : runtime(host), policy(std::move(allowed)) {
  GetName = [](const OrtCustomOp*) { return model::kAtenOpType; };
  GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  GetInputType = GetOutputType = [](const OrtCustomOp*, std::size_t) { return 0; };
  GetInputTypeCount = GetOutputTypeCount = [](const OrtCustomOp*) { return std::size_t{1}; };
  GetInputCharacteristic =
      GetOutputCharacteristic = [](const OrtCustomOp*, std::size_t) { return kVariadic; };
  GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return 0; };
  GetVariadicInputMinArity = GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicInputHomogeneity = GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
  GetStartVersion = [](const OrtCustomOp*) { return 1; };
  GetEndVersion = [](const OrtCustomOp*) { return INT_MAX; };
  if (is_for_gpu) {
    GetExecutionProviderType = [](const OrtCustomOp*) { return kCudaProvider; };
    UseKernel<AtenGpuKernel>(this);
  } else {
    UseKernel<AtenKernel>(this);
  }
  if (runtime.InfersShapes()) {
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) {
      return Guarded(AtenOperatorOf(self).runtime.api,
                     [&] { return InferShapes(AtenOperatorOf(self), context); });
    };
  }
}

}  // namespace opgraft::ort
