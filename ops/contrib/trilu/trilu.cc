// Declares com.microsoft Trilu.
#include "ops/contrib/cuda_call.h"
#include "ops/contrib/matrices.h"
#include "ops/contrib/trilu/trilu_cpu.h"
#include "ops/contrib/trilu/trilu_cuda.h"

namespace opgraft::contrib {
namespace {

/// The smallest number of bytes for which another thread pays off.
constexpr std::size_t kGrain = 1 << 18;

using OptionalNumber = std::optional<Tensor<const std::int64_t>>;

/// Returns the number of the diagonal; throws if the tensor does not hold exactly one.
std::int64_t Diagonal(const OptionalNumber& k) {
  if (k && k->size() != 1) {
    throw ShapeError("input 'k' has " + std::to_string(k->size()) +
                     " elements, expected one: the number of the diagonal");
  }
  return k ? (*k)[0] : 0;
}

template <class T>
void ComputeTrilu(Context& context, Tensor<const T> x, const OptionalNumber& k, Tensor<T> y,
                  std::int64_t upper) {
  const std::int64_t diagonal = Diagonal(k);
  const std::int64_t rows = x.dimension(-2);
  const std::int64_t columns = x.dimension(-1);
  if (x.size() == 0) return;  // the product of the other sizes may overflow
  const std::size_t matrix = static_cast<std::size_t>(rows * columns);
  const std::size_t grain = std::max<std::size_t>(1, kGrain / (matrix * sizeof(T)));
  context.ParallelRanges(CountMatrices(x.shape()), grain, [&](std::size_t first, std::size_t last) {
    Trilu<sizeof(T)>(x.data() + first * matrix, y.data() + first * matrix,
                     {static_cast<std::int64_t>(last - first), rows, columns}, diagonal,
                     upper != 0);
  });
}

OPGRAFT_TYPES(T, float, double, Float16, BFloat16, std::int8_t, std::int16_t, std::int32_t,
              std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool);

OPGRAFT_OP("com.microsoft::Trilu")
    .Doc("The upper or lower triangle of matrices; the other elements are 0.")
    .Input<T>("X", "matrices: a tensor of rank 2 or more")
    .OptionalInput<OnHost<std::int64_t>>("k",
                                         "the diagonal that bounds the triangle, 0 for the main "
                                         "one")
    .Output<T>("Y", "of the same type and shape as X")
    .Attribute<std::int64_t>("upper", 1, "whether the upper triangle is kept, or the lower one")
    .Shape([](ShapeContext& context) { SameMatrices(context, /*must_be_square=*/false); })
    .InPlace("X", "Y")
    // For these types, ONNX Runtime only has kernels for ONNX's own operator.
    .Torch("aten::triu", {{"upper", 1}, {"k", Argument("diagonal")}},
           LeftToTorch<std::int32_t, bool>())
    .Torch("aten::tril", {{"upper", 0}, {"k", Argument("diagonal")}},
           LeftToTorch<std::int32_t, bool>())
    .Cpu([](Context& context, auto... arguments) { ComputeTrilu(context, arguments...); })
#ifdef OPGRAFT_CUDA
    .Cuda([]<class E>(Context& context, DeviceTensor<const E> x, const OptionalNumber& k,
                      DeviceTensor<E> y, std::int64_t upper) {
      const std::int64_t diagonal = Diagonal(k);
      if (x.size() == 0) return Status();
      const auto count = static_cast<std::int64_t>(CountMatrices(x.shape()));
      return ToStatus(TriluCuda<sizeof(E)>(x.data(), y.data(),
                                           {count, x.dimension(-2), x.dimension(-1)}, diagonal,
                                           upper != 0, context.stream()));
    })
#endif
    ;

}  // namespace
}  // namespace opgraft::contrib
