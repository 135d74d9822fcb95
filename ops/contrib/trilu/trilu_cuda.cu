// Trilu on the GPU: one vector of 16 bytes for each thread. Vectors that are dropped are not read.
#include <algorithm>

#include "ops/contrib/device.cuh"
#include "ops/contrib/trilu/trilu_cuda.h"

namespace opgraft::contrib {
namespace {

constexpr int kThreads = 256;

/// Divides numbers below 2^63 by a fixed divisor: a product of 128 bits and a shift.
class Divisor {
 public:
  explicit Divisor(std::uint64_t divisor) : divisor_(divisor) {
    // If 2^shift is the smallest power not below the divisor, the smallest multiplier not below
    // 2^(63 + shift) / divisor has a relative error of less than 2^-63. For the divisor 1 it would
    // need one more bit.
    while (shift_ < 63 && (std::uint64_t{1} << shift_) < divisor) ++shift_;
    using Wide = unsigned __int128;
    multiplier_ = static_cast<std::uint64_t>(((Wide{1} << (63 + shift_)) + divisor - 1) / divisor);
  }

  __device__ std::uint64_t Quotient(std::uint64_t x) const {
    return divisor_ == 1 ? x : __umul64hi(x, multiplier_) >> (shift_ - 1);
  }

  __device__ std::uint64_t value() const { return divisor_; }

 private:
  std::uint64_t divisor_;
  std::uint64_t multiplier_;
  int shift_ = 0;
};

/// The left part of row r is its first r + shift elements, but at most the whole row. Either the
/// left or the right parts are kept.
struct Triangle {
  Divisor columns;
  Divisor rows;
  std::int64_t shift;
  bool keeps_left;
};

/// Returns which of `width` elements from `first` on are kept, one bit for each; width is at most
/// 16.
__device__ inline std::uint32_t Kept(const Triangle& triangle, std::size_t first, int width) {
  const auto columns = static_cast<std::int64_t>(triangle.columns.value());
  const auto rows = static_cast<std::int64_t>(triangle.rows.value());
  auto row = static_cast<std::int64_t>(triangle.columns.Quotient(first));
  auto column = static_cast<std::int64_t>(first) - row * columns;
  row -= static_cast<std::int64_t>(triangle.rows.Quotient(row)) * rows;
  std::uint32_t kept = 0;
  for (int done = 0;;) {
    const std::int64_t in_row = columns - column;
    const int count = in_row < width - done ? static_cast<int>(in_row) : width - done;
    const std::int64_t part = row + triangle.shift - column;
    const int left = part < 0 ? 0 : part < count ? static_cast<int>(part) : count;
    const std::uint32_t all = (1U << count) - 1;
    const std::uint32_t left_ones = (1U << left) - 1;
    kept |= (triangle.keeps_left ? left_ones : all ^ left_ones) << done;
    done += count;
    if (done == width) return kept;
    column = 0;
    if (++row == rows) row = 0;
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    TriluKernel(const T* x, T* y, const Triangle triangle, std::size_t head, std::size_t vectors,
                std::size_t count) {
  const std::size_t thread = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread >= vectors) {
    std::size_t at = thread - vectors;
    if (at >= head) at += vectors * kWidth;
    if (at < count) y[at] = Kept(triangle, at, 1) != 0 ? x[at] : T{};
    return;
  }
  using Vector = Elements<T, kWidth>;
  const std::size_t first = head + thread * kWidth;
  const std::uint32_t kept = Kept(triangle, first, kWidth);
  constexpr std::uint32_t kAll = (1U << kWidth) - 1;
  if (kept == kAll && x == y) return;
  Vector vector = {};
  if (kept != 0) {
    vector = *reinterpret_cast<const Vector*>(x + first);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if ((kept >> i & 1U) == 0) vector.of[i] = T{};
    }
  }
  *reinterpret_cast<Vector*>(y + first) = vector;
}

/// Only the size of an element matters.
template <std::size_t kSize>
struct Bytes;
template <>
struct Bytes<1> {
  using Type = std::uint8_t;
};
template <>
struct Bytes<2> {
  using Type = std::uint16_t;
};
template <>
struct Bytes<4> {
  using Type = std::uint32_t;
};
template <>
struct Bytes<8> {
  using Type = std::uint64_t;
};
template <>
struct Bytes<16> {
  using Type = Elements<std::uint64_t, 2>;
};

}  // namespace

template <std::size_t kElementSize>
CudaError TriluCuda(const void* x, void* y, const TriluShape& shape, std::int64_t k, bool upper,
                    CudaStream stream) {
  if (shape.batch == 0 || shape.rows == 0 || shape.columns == 0) return nullptr;
  using Element = typename Bytes<kElementSize>::Type;
  constexpr int kWidth = kVectorBytes / kElementSize;
  const auto count = static_cast<std::size_t>(shape.batch * shape.rows * shape.columns);
  // A diagonal beyond these limits gives the same result as one at the limit; no sum overflows.
  const Triangle triangle = {.columns = Divisor(static_cast<std::uint64_t>(shape.columns)),
                             .rows = Divisor(static_cast<std::uint64_t>(shape.rows)),
                             .shift = std::clamp(k, -shape.rows, shape.columns) + (upper ? 0 : 1),
                             .keeps_left = !upper};
  const Division division = Divide(x, y, count, kElementSize);
  return Launch(division.width == 1 ? TriluKernel<Element, 1> : TriluKernel<Element, kWidth>,
                (division.threads + kThreads - 1) / kThreads, kThreads, stream,
                static_cast<const Element*>(x), static_cast<Element*>(y), triangle, division.head,
                division.vectors, count);
}

#define OPGRAFT_INSTANTIATE(size)                                                               \
  template CudaError TriluCuda<size>(const void*, void*, const TriluShape&, std::int64_t, bool, \
                                     CudaStream);
OPGRAFT_INSTANTIATE(1)
OPGRAFT_INSTANTIATE(2)
OPGRAFT_INSTANTIATE(4)
OPGRAFT_INSTANTIATE(8)
OPGRAFT_INSTANTIATE(16)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
