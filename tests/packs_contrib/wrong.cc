// Schemas and kernels that do not go together: the pack is refused, with a message for each.
#include <opgraft/contrib.h>

namespace onnxruntime {
namespace contrib {

class Nothing final : public OpKernel {
 public:
  explicit Nothing(const OpKernelInfo& info) : OpKernel(info) {}
  Status Compute(OpKernelContext*) const override { return Status::OK(); }
};

#define SCHEMA(name)                 \
  ONNX_CONTRIB_OPERATOR_SCHEMA(name) \
      .SetDomain("wrong")            \
      .SinceVersion(1)               \
      .Input(0, "X", "any", "T")     \
      .Output(0, "Y", "any", "T")    \
      .TypeConstraint("T", {"tensor(float)", "tensor(int64)"}, "some")
#define KERNEL(name, ...)                                                                          \
  ONNX_OPERATOR_KERNEL_EX(name, "wrong", 1, kCpuExecutionProvider, KernelDefBuilder() __VA_ARGS__, \
                          Nothing)

SCHEMA(NoKernel);

KERNEL(NoSchema)

SCHEMA(OtherVersion);
ONNX_OPERATOR_KERNEL_EX(OtherVersion, "wrong", 3, kCpuExecutionProvider, KernelDefBuilder(),
                        Nothing)

SCHEMA(TypeNotAllowed);
KERNEL(TypeNotAllowed, .TypeConstraint("T", BuildKernelDefConstraints<float, double>()))

SCHEMA(NoSuchType);
KERNEL(NoSuchType, .TypeConstraint("U", BuildKernelDefConstraints<float>()))

SCHEMA(TwoKernels);
KERNEL(TwoKernels)
KERNEL(TwoKernels, .TypeConstraint("T", DataTypeImpl::GetTensorType<int64_t>()))

SCHEMA(TwoSchemas);
SCHEMA(TwoSchemas);
KERNEL(TwoSchemas)

SCHEMA(OtherProvider);
ONNX_OPERATOR_KERNEL_EX(OtherProvider, "wrong", 1, "ROCMExecutionProvider", KernelDefBuilder(),
                        Nothing)

#define CUDA_KERNEL(name, ...)                                      \
  ONNX_OPERATOR_KERNEL_EX(name, "wrong", 1, kCudaExecutionProvider, \
                          KernelDefBuilder() __VA_ARGS__, Nothing)

SCHEMA(CudaTwice);
KERNEL(CudaTwice)
CUDA_KERNEL(CudaTwice)
CUDA_KERNEL(CudaTwice)

SCHEMA(CudaStrings).Input(1, "S", "a text", "S").TypeConstraint("S", {"tensor(string)"}, "texts");
CUDA_KERNEL(CudaStrings)

SCHEMA(CudaNoInput);
CUDA_KERNEL(CudaNoInput, .InputMemoryType(OrtMemTypeCPUInput, 1))

SCHEMA(CudaVariadic).Input(1, "R", "more", "T", OpSchema::Variadic);
CUDA_KERNEL(CudaVariadic, .InputMemoryType(OrtMemTypeCPUInput, 1))

SCHEMA(CudaOutput);
CUDA_KERNEL(CudaOutput, .OutputMemoryType(OrtMemTypeCPUOutput, 0))

SCHEMA(WrongDefault).Attr("a", "a float with a text", AttributeProto::FLOAT, "text");
KERNEL(WrongDefault)

SCHEMA(GraphAttribute).Attr("body", "a graph", AttributeProto::GRAPH);
KERNEL(GraphAttribute)

SCHEMA(Gap).Input(2, "Z", "with none before it", "T");
KERNEL(Gap)

SCHEMA(SecondPlace).Input(0, "Z", "where X is", "T");
KERNEL(SecondPlace)

SCHEMA(NoConstraint).Input(1, "Z", "of no type", "U");
KERNEL(NoConstraint)

SCHEMA(Sequence).Input(1, "Z", "a list", "S").TypeConstraint("S", {"seq(tensor(float))"}, "lists");
KERNEL(Sequence)

SCHEMA(OpenOutput)
    .Output(1, "Z", "of which type?", "U")
    .TypeConstraint("U", {"tensor(float)", "tensor(bool)"}, "two");
KERNEL(OpenOutput)

SCHEMA(InPlace);
KERNEL(InPlace, .MayInplace(1, 0))

ONNX_CONTRIB_OPERATOR_SCHEMA(NoDomain).Output(0, "Y", "any", "tensor(float)");

}  // namespace contrib
}  // namespace onnxruntime
