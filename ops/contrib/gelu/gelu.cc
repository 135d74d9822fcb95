// Declares com.microsoft Gelu.
#include <opgraft/op.h>

#include "ops/contrib/cuda_call.h"
#include "ops/contrib/gelu/gelu_cpu.h"
#include "ops/contrib/gelu/gelu_cuda.h"

namespace opgraft::contrib {
namespace {

/// The smallest number of elements for which another thread pays off.
constexpr std::size_t kGrain = 1 << 15;

template <class T>
void ComputeGelu(const T* x, T* y, std::size_t count) {
  if constexpr (std::is_same_v<T, Float16>) {
    GeluFloat16(reinterpret_cast<const std::uint16_t*>(x), reinterpret_cast<std::uint16_t*>(y),
                count);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    GeluBFloat16(reinterpret_cast<const std::uint16_t*>(x), reinterpret_cast<std::uint16_t*>(y),
                 count);
  } else {
    Gelu(x, y, count);
  }
}

OPGRAFT_TYPES(T, float, double, Float16, BFloat16);

OPGRAFT_OP("com.microsoft::Gelu")
    .Doc("The Gaussian error linear unit, exact: y = 0.5 x (1 + erf(x / sqrt 2)).")
    .Input<T>("X", "any tensor")
    .Output<T>("Y", "of the same type and shape")
    .Shape(SameAs("X"))
    .InPlace("X", "Y")
    .Torch("aten::gelu")
    .Cpu([](Context& context, auto x, auto y) {
      context.ParallelRanges(x.size(), kGrain, [&](std::size_t first, std::size_t last) {
        ComputeGelu(x.data() + first, y.data() + first, last - first);
      });
    })
#ifdef OPGRAFT_CUDA
    .Cuda([](Context& context, auto x, auto y) {
      return ToStatus(GeluCuda(x.data(), y.data(), x.size(), context.stream()));
    })
#endif
    ;

}  // namespace
}  // namespace opgraft::contrib
