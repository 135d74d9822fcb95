// An operator written entirely in the style of ONNX Runtime's tree; only the include is Opgraft's.
//
// `opgraft build row_normalize.cc` builds a library that stock ONNX Runtime loads.
#include <opgraft/contrib.h>

#include <cmath>

namespace onnxruntime {
namespace contrib {

constexpr const char* kExampleDomain = "ai.opgraft.examples";

ONNX_CONTRIB_OPERATOR_SCHEMA(RowNormalize)
    .SetDomain(kExampleDomain)
    .SinceVersion(1)
    .SetDoc("Divides each row, which is the last axis, by its Euclidean length.")
    .Input(0, "X", "Rows.", "T")
    .Input(1, "scale", "A factor for each column.", "T", OpSchema::Optional)
    .Output(0, "Y", "Rows of length 1, times scale.", "T")
    .Output(1, "length", "The lengths.", "T", OpSchema::Optional)
    .Attr("epsilon", "Added to the sum of squares.", AttributeProto::FLOAT, 1e-12f)
    .TypeConstraint("T", {"tensor(float16)", "tensor(float)", "tensor(double)"}, "Floats.")
    .TypeAndShapeInferenceFunction([](ONNX_NAMESPACE::InferenceContext& ctx) {
      propagateShapeAndTypeFromFirstInput(ctx);
      if (ctx.getNumOutputs() > 1) propagateElemTypeFromInputToOutput(ctx, 0, 1);
      if (!hasInputShape(ctx, 0)) return;
      const auto& shape = getInputShape(ctx, 0);
      if (shape.dim_size() < 1) fail_shape_inference("X must have a rank of 1 or more.");
      auto columns = shape.dim(shape.dim_size() - 1);
      unifyInputDim(ctx, 1, 0, columns);
      if (ctx.getNumOutputs() > 1) {
        TensorShapeProto lengths = shape;
        lengths.mutable_dim()->RemoveLast();
        updateOutputShape(ctx, 1, lengths);
      }
    });

class RowNormalize final : public OpKernel {
 public:
  explicit RowNormalize(const OpKernelInfo& info)
      : OpKernel(info), epsilon_(info.GetAttr<float>("epsilon")) {
    ORT_ENFORCE(epsilon_ >= 0, "epsilon is ", epsilon_, ", expected 0 or more.");
  }
  Status Compute(OpKernelContext* ctx) const override;

 private:
  template <typename T>
  struct ComputeImpl;

  const float epsilon_;
};

ONNX_OPERATOR_KERNEL_EX(RowNormalize, kExampleDomain, 1, kCpuExecutionProvider,
                        KernelDefBuilder().MayInplace(0, 0).TypeConstraint(
                            "T", BuildKernelDefConstraints<float, double, MLFloat16>()),
                        RowNormalize);

template <typename T>
struct RowNormalize::ComputeImpl {
  void operator()(const Tensor& x, const Tensor* scale, Tensor& y, Tensor* length, float epsilon,
                  concurrency::ThreadPool* pool) const {
    // Half floats are computed as floats.
    using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const int64_t columns = x.Shape()[x.Shape().NumDimensions() - 1];
    const int64_t rows = x.Shape().SizeToDimension(x.Shape().NumDimensions() - 1);
    const T* factors = scale != nullptr ? scale->Data<T>() : nullptr;
    T* lengths = length != nullptr ? length->MutableData<T>() : nullptr;
    concurrency::ThreadPool::TryParallelFor(
        pool, narrow<std::ptrdiff_t>(rows), static_cast<double>(4 * columns),
        [&](std::ptrdiff_t first, std::ptrdiff_t last) {
          for (std::ptrdiff_t row = first; row < last; ++row) {
            const T* from = x.Data<T>() + row * columns;
            T* to = y.MutableData<T>() + row * columns;
            Number sum = epsilon;
            for (int64_t i = 0; i < columns; ++i) {
              sum += static_cast<Number>(from[i]) * static_cast<Number>(from[i]);
            }
            const Number root = std::sqrt(sum);
            for (int64_t i = 0; i < columns; ++i) {
              const Number factor = factors != nullptr ? static_cast<Number>(factors[i]) : 1;
              to[i] = static_cast<T>(static_cast<Number>(from[i]) / root * factor);
            }
            if (lengths != nullptr) lengths[row] = static_cast<T>(root);
          }
        });
  }
};

Status RowNormalize::Compute(OpKernelContext* ctx) const {
  const auto& x = ctx->RequiredInput<Tensor>(0);
  const auto* scale = ctx->Input<Tensor>(1);
  const auto& shape = x.Shape();
  const size_t rank = shape.NumDimensions();
  ORT_RETURN_IF_NOT(rank >= 1, "X is a scalar, expected rows");
  if (scale != nullptr &&
      (scale->Shape().NumDimensions() != 1 || scale->Shape()[0] != shape[rank - 1])) {
    return ORT_MAKE_STATUS(ONNXRUNTIME, INVALID_ARGUMENT, "scale has the shape ", scale->Shape(),
                           ", expected {", shape[rank - 1], "}");
  }
  auto& y = ctx->RequiredOutput(0, shape);
  auto* length = ctx->Output(1, shape.Slice(0, rank - 1));
  utils::MLTypeCallDispatcher<float, double, MLFloat16> dispatcher(x.GetElementType());
  dispatcher.Invoke<ComputeImpl>(x, scale, y, length, epsilon_, ctx->GetOperatorThreadPool());
  return Status::OK();
}

}  // namespace contrib
}  // namespace onnxruntime
