// Declares com.microsoft Inverse.
#include <algorithm>
#include <array>
#include <mutex>

#include "ops/contrib/cuda_call.h"
#include "ops/contrib/inverse/inverse_cpu.h"
#include "ops/contrib/inverse/inverse_cuda.h"
#include "ops/contrib/matrices.h"

namespace opgraft::contrib {
namespace {

/// The smallest number of multiplications for which another thread pays off.
constexpr std::size_t kGrain = 1 << 17;
/// The number of matrices that the widest vectors compute in parallel.
constexpr std::size_t kLanes = 16;
constexpr std::size_t kMostParts = 64;

/// The type that inverse_cpu.h uses for an element type.
template <class T>
using Plain = std::conditional_t<std::is_same_v<T, Float16>, std::uint16_t, T>;

template <class T>
Status ComputeInverse(Context& context, Tensor<const T> x, Tensor<T> y) {
  const auto n = static_cast<std::size_t>(x.dimension(-1));
  const std::size_t count = CountMatrices(x.shape());
  if (x.size() == 0) return Status();
  const std::size_t grain =
      (std::max<std::size_t>(1, kGrain / (n * n * n)) + kLanes - 1) / kLanes * kLanes;
  const std::size_t size =
      std::max(n > kLanes ? std::size_t{1} : grain, (count + kMostParts - 1) / kMostParts);
  const std::size_t parts = (count + size - 1) / size;
  const std::size_t scratch_bytes = InvertScratchBytes<Plain<T>>(n);
  // Calling the runtime's allocator takes more time than inverting a small matrix.
  constexpr std::size_t kFewBytes = 1 << 15;
  std::byte* const scratch = scratch_bytes <= kFewBytes
                                 ? nullptr
                                 : context.Scratch<std::byte>(scratch_bytes * parts).data();

  std::mutex mutex;
  SingularMatrix singular;
  const auto invert = [&](std::size_t part) {
    alignas(64) std::array<std::byte, kFewBytes> few;
    const SingularMatrix found =
        Invert(reinterpret_cast<const Plain<T>*>(x.data()), reinterpret_cast<Plain<T>*>(y.data()),
               n, part * size, std::min(count, (part + 1) * size),
               scratch == nullptr ? few.data() : scratch + part * scratch_bytes);
    if (!found) return;
    const std::lock_guard lock(mutex);
    if (!singular || found.matrix < singular.matrix) singular = found;
  };
  if (parts == 1) {
    invert(0);
  } else {
    context.ParallelFor(parts, invert);
  }
  if (!singular) return Status();
  return Status::Error(SingularMatrixText(singular, /*batched=*/x.rank() > 2));
}

OPGRAFT_TYPES(T, float, double, Float16);

OPGRAFT_OP("com.microsoft::Inverse")
    .Doc("The inverses of square matrices. A singular matrix is an error.")
    .Input<T>("X", "square matrices: a tensor of rank 2 or more")
    .Output<T>("Y", "of the same type and shape")
    .Shape([](ShapeContext& context) { SameMatrices(context, /*must_be_square=*/true); })
    .InPlace("X", "Y")
    .Torch("aten::inverse")
    .Cpu([](Context& context, auto... arguments) { return ComputeInverse(context, arguments...); })
#ifdef OPGRAFT_CUDA
    .Cuda([](Context& context, auto x, auto y) {
      if (x.size() == 0) return Status();
      const auto n = static_cast<std::size_t>(x.dimension(-1));
      return ToStatus(InverseCuda(x.data(), y.data(), n, CountMatrices(x.shape()),
                                  ScratchOf(context), context.stream()));
    })
#endif
    ;

}  // namespace
}  // namespace opgraft::contrib
