// Kernels for CUDA in the manner of ONNX Runtime's tree, for the fake GPU, beside those for the
// CPU.
#include <opgraft/contrib_cuda.h>

namespace onnxruntime {
namespace contrib {

ONNX_CONTRIB_OPERATOR_SCHEMA(Scale)
    .SetDomain("test.contrib_cuda")
    .SinceVersion(1)
    .Attr("mode", "what to do", AttributeProto::STRING, std::string("scratch"))
    .Input(0, "X", "any tensor", "T")
    .Input(1, "factor", "by which", "tensor(float)", OpSchema::Optional)
    .Output(0, "Y", "X times factor", "T")
    .TypeConstraint("T", {"tensor(float)", "tensor(double)"}, "floats")
    .TypeAndShapeInferenceFunction(ONNX_NAMESPACE::propagateShapeAndTypeFromFirstInput);

/// On the CPU it adds 1 more, which tells where it has run.
template <class T>
class Scale final : public OpKernel {
 public:
  explicit Scale(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext* context) const override {
    ORT_RETURN_IF(context->GetComputeStream() != nullptr, "a kernel for the CPU has no stream");
    const Tensor& x = context->RequiredInput<Tensor>(0);
    const Tensor* const factor = context->Input<Tensor>(1);
    Tensor& y = context->RequiredOutput(0, x.Shape());
    for (std::int64_t i = 0; i < x.Shape().Size(); ++i) {
      y.MutableData<T>()[i] = x.Data<T>()[i] * (factor != nullptr ? *factor->Data<float>() : 2) + 1;
    }
    return Status::OK();
  }
};
ONNX_OPERATOR_TYPED_KERNEL_EX(
    Scale, "test.contrib_cuda", 1, float, kCpuExecutionProvider,
    KernelDefBuilder().TypeConstraint("T", DataTypeImpl::GetTensorType<float>()), Scale<float>);
ONNX_OPERATOR_TYPED_KERNEL_EX(
    Scale, "test.contrib_cuda", 1, double, kCpuExecutionProvider,
    KernelDefBuilder().TypeConstraint("T", DataTypeImpl::GetTensorType<double>()), Scale<double>);

namespace cuda {

using namespace onnxruntime::cuda;

/// For floats alone.
class Scale final : public CudaKernel {
 public:
  explicit Scale(const OpKernelInfo& info) : CudaKernel{info} {
    mode_ = info.GetAttr<std::string>("mode");
    const Tensor* constant = nullptr;
    ORT_ENFORCE(!info.TryGetConstantInput(0, &constant), "X is on the GPU");
    is_constant_ = info.TryGetConstantInput(1, &constant);
    if (is_constant_) constant_ = *constant->Data<float>();
    if (mode_ == "allocator") static_cast<void>(info.GetAllocator());
  }

  Status ComputeInternal(OpKernelContext* context) const override {
    const Tensor& x = context->RequiredInput<Tensor>(0);
    const Tensor* const factor = context->Input<Tensor>(1);
    Tensor& y = context->RequiredOutput(0, x.Shape());
    float by = factor != nullptr ? *factor->Data<float>() : 2;
    if (is_constant_) by = constant_;
    const auto size = static_cast<std::size_t>(x.Shape().Size());
    if (mode_ == "fails") return ORT_MAKE_STATUS(ONNXRUNTIME, INVALID_ARGUMENT, "as told");
    if (mode_ == "throws") CUDA_CALL_THROW(cudaErrorInvalidConfiguration);
    if (mode_ == "returns") CUDA_RETURN_IF_ERROR(cudaErrorInvalidConfiguration);
    if (mode_ == "launch") fake::last_error = cudaErrorInvalidConfiguration;
    if (mode_ == "threads") return FromThreads(context);
    ORT_ENFORCE(GetDeviceProp().multiProcessorCount == 132);

    CudaAsyncBuffer<float> buffer(this, by, 1);
    ORT_RETURN_IF_ERROR(buffer.CopyToGpu(GetComputeStream(context)));
    const auto scratch = GetScratchBuffer<float>(size, context->GetComputeStream());
    const float* const number = fake::Alias(buffer.GpuPtr());
    const float* const from = fake::Alias(x.Data<float>());
    float* const middle = size > 0 ? fake::Alias(scratch.get()) : nullptr;
    float* const to = fake::Alias(y.MutableData<float>());
    fake::Launch(Stream(context), [=] {
      for (std::size_t i = 0; i < size; ++i) middle[i] = from[i] * *number;
    });
    fake::Launch(Stream(context), [=] {
      for (std::size_t i = 0; i < size; ++i) to[i] = middle[i];
    });
    return Status::OK();
  }

 private:
  /// Memory of the GPU, asked for in a loop.
  Status FromThreads(OpKernelContext* context) const {
    AllocatorPtr allocator;
    ORT_RETURN_IF_ERROR(context->GetTempSpaceCPUAllocator(&allocator));
    *IAllocator::MakeUniquePtr<float>(allocator, 1) = 1;
    concurrency::ThreadPool::TrySimpleParallelFor(
        context->GetOperatorThreadPool(), 4, [&](std::ptrdiff_t) {
          static_cast<void>(GetScratchBuffer<float>(1, context->GetComputeStream()));
        });
    return Status::OK();
  }

  std::string mode_;
  bool is_constant_ = false;
  float constant_ = 0;
};
ONNX_OPERATOR_KERNEL_EX(Scale, "test.contrib_cuda", 1, kCudaExecutionProvider,
                        (*KernelDefBuilder::Create())
                            .InputMemoryType(OrtMemTypeCPUInput, 1)
                            .TypeConstraint("T", BuildKernelDefConstraints<float>()),
                        Scale);

}  // namespace cuda
}  // namespace contrib
}  // namespace onnxruntime
