// Declares com.microsoft Trilu.
#include "ops/contrib/matrices.h"
#include "ops/contrib/trilu/trilu_cpu.h"

namespace opgraft::contrib {
namespace {

/// Bytes for which a thread is worth its while.
constexpr std::size_t kGrain = 1 << 18;

template <class T>
Status ComputeTrilu(Context& context, Tensor<const T> x,
                    std::optional<Tensor<const std::int64_t>> k, Tensor<T> y, std::int64_t upper) {
  if (k && k->size() != 1) {
    return Status::Model("input 'k' has " + std::to_string(k->size()) +
                         " elements, expected one: the number of the diagonal");
  }
  const std::int64_t diagonal = k ? (*k)[0] : 0;
  const std::int64_t rows = x.dimension(-2);
  const std::int64_t columns = x.dimension(-1);
  if (x.size() == 0) return Status();  // the other sizes may have any product then
  const std::size_t matrix = static_cast<std::size_t>(rows * columns);
  const std::size_t grain = std::max<std::size_t>(1, kGrain / (matrix * sizeof(T)));
  context.ParallelRanges(CountMatrices(x.shape()), grain, [&](std::size_t first, std::size_t last) {
    Trilu<sizeof(T)>(x.data() + first * matrix, y.data() + first * matrix,
                     {static_cast<std::int64_t>(last - first), rows, columns}, diagonal,
                     upper != 0);
  });
  return Status();
}

OPGRAFT_TYPES(T, float, double, Float16, BFloat16, std::int8_t, std::int16_t, std::int32_t,
              std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool);

OPGRAFT_OP("com.microsoft::Trilu")
    .Doc("The upper or lower triangle of matrices; the other elements are 0.")
    .Input<T>("X", "matrices, of a rank of 2 or more")
    .OptionalInput<std::int64_t>("k", "the diagonal that bounds the triangle, 0 for the main one")
    .Output<T>("Y", "of the same type and shape as X")
    .Attribute<std::int64_t>("upper", 1, "whether the upper triangle is kept, or the lower one")
    .Shape([](ShapeContext& context) { SameMatrices(context, /*must_be_square=*/false); })
    .InPlace("X", "Y")
    .Cpu([](Context& context, auto... arguments) { return ComputeTrilu(context, arguments...); });

}  // namespace
}  // namespace opgraft::contrib
