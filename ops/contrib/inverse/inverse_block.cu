// Inverts medium-sized matrices: each in the registers of one block.
#include "ops/contrib/inverse/inverse_parts.cuh"

namespace opgraft::contrib {
namespace {

constexpr int kWarpSize = 32;

/// How a matrix of up to kSize rows is stored in registers. Thread (q, c) holds kRows rows starting
/// with row q * kRows, and of each the kColumns columns c, c + kColumnGroups, ...
template <int kRows_, int kColumns_, int kRowGroups_, int kColumnGroups_>
struct Layout {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kRowGroups = kRowGroups_;
  static constexpr int kColumnGroups = kColumnGroups_;
  static constexpr int kSize = kRows * kRowGroups;
  static constexpr int kThreads = kRowGroups * kColumnGroups;
  static_assert(kSize == kColumns * kColumnGroups && kSize <= 256 && kThreads % kWarpSize == 0);
};

template <class Real, class L>
struct BlockMemory {
  /// The columns that this step and the next one eliminate.
  Real columns[2][L::kSize];
  /// The pivot row of a step.
  Real row[L::kSize];
  /// The pivot row of each step; for each row its step, and the reciprocal of its pivot.
  int rows[L::kSize];
  int steps[L::kSize];
  Real reciprocals[L::kSize];
  /// Rows of the inverse before they are written to device memory.
  Real staged[L::kRowGroups][L::kSize + 1];
};

template <class T, class L>
__global__ void __launch_bounds__(L::kThreads) InvertKernel(const T* matrices, T* inverses, int n) {
  using Real = Computed<T>;
  // The lowest bits of a magnitude identify the row; they are greatest for the first rows.
  constexpr int kTagMask = 255;
  constexpr int kMagnitudeMask = 0x7fffffff & ~kTagMask;
  __shared__ BlockMemory<Real, L> memory;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int row_group = thread / L::kColumnGroups;
  const int column_group = thread % L::kColumnGroups;
  const std::size_t offset = std::size_t{blockIdx.x} * n * n;

  Real values[L::kRows][L::kColumns];
#pragma unroll
  for (int i = 0; i < L::kRows; ++i) {
    const int row = row_group * L::kRows + i;
#pragma unroll
    for (int j = 0; j < L::kColumns; ++j) {
      const int column = j * L::kColumnGroups + column_group;
      values[i][j] = row < n && column < n
                         ? Widen(matrices[offset + static_cast<std::size_t>(row) * n + column])
                         : Real{0};
    }
  }

  // Each warp searches for the pivot by itself. The bits say which of the rows lane, lane + 32, ...
  // have been pivots.
  unsigned taken = 0;
  for (int k = 0; k < n;) {
    for (int group = 0; group < L::kColumnGroups && k < n; ++group, ++k) {
      Real* const column = memory.columns[k % 2];
      const bool has_column = column_group == group;
      if (has_column) {
#pragma unroll
        for (int i = 0; i < L::kRows; ++i) column[row_group * L::kRows + i] = values[i][0];
      }
      __syncthreads();
      int key = -1;
#pragma unroll
      for (int i = 0; i < (L::kSize + kWarpSize - 1) / kWarpSize; ++i) {
        const int row = lane + i * kWarpSize;
        if (row >= n || (taken >> i & 1U) != 0) continue;
        const int candidate = (MagnitudeBits(column[row]) & kMagnitudeMask) | (kTagMask - row);
        key = candidate > key ? candidate : key;
      }
      const int pivot_row = kTagMask - (GreatestOfWarp(key) & kTagMask);
      if (lane == pivot_row % kWarpSize) taken |= 1U << (pivot_row / kWarpSize);
      const bool has_row = row_group == pivot_row / L::kRows;
      const int place = pivot_row % L::kRows;
      if (has_row) {
        WithConstant<L::kRows>(place, [&]<int kRow>() {
#pragma unroll
          for (int j = 0; j < L::kColumns; ++j) {
            memory.row[j * L::kColumnGroups + column_group] = values[kRow][j];
          }
        });
      }
      const Real reciprocal = ReciprocalOf(column[pivot_row]);
      if (thread == 0) {
        memory.rows[k] = pivot_row;
        memory.steps[pivot_row] = k;
        memory.reciprocals[pivot_row] = reciprocal;
      }
      __syncthreads();
      Real row[L::kColumns];
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j)
        row[j] = memory.row[j * L::kColumnGroups + column_group];
      if (has_column) row[0] = 1;
#pragma unroll
      for (int i = 0; i < L::kRows; ++i) {
        const bool is_taken = has_row && place == i;
        const Real factor = is_taken ? Real{0} : -column[row_group * L::kRows + i] * reciprocal;
        if (has_column) values[i][0] = is_taken ? Real{1} : Real{0};
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) values[i][j] = Fused(factor, row[j], values[i][j]);
      }
    }
    // Rotates the registers, so that the next columns are in the first one.
#pragma unroll
    for (int i = 0; i < L::kRows; ++i) {
      const Real first = values[i][0];
#pragma unroll
      for (int j = 0; j + 1 < L::kColumns; ++j) values[i][j] = values[i][j + 1];
      values[i][L::kColumns - 1] = first;
    }
  }

  const int rotated = (n + L::kColumnGroups - 1) / L::kColumnGroups;
#pragma unroll
  for (int i = 0; i < L::kRows; ++i) {
    const int row = row_group * L::kRows + i;
    if (row < n) {
      const Real scale = memory.reciprocals[row];
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        const int place = j + rotated < L::kColumns ? j + rotated : j + rotated - L::kColumns;
        const int column = place * L::kColumnGroups + column_group;
        if (column < n) memory.staged[row_group][memory.rows[column]] = values[i][j] * scale;
      }
    }
    __syncthreads();
    if (row < n) {
      T* const to = inverses + offset + static_cast<std::size_t>(memory.steps[row]) * n;
      for (int column = column_group; column < n; column += L::kColumnGroups) {
        to[column] = Narrow<T>(memory.staged[row_group][column]);
      }
    }
    __syncthreads();
  }
}

}  // namespace

template <class T>
CudaError InvertInBlocks(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                         CudaStream stream) {
  const auto invert = [&]<class L>(L) {
    return Launch(InvertKernel<T, L>, count, L::kThreads, stream, matrices, inverses, n);
  };
  if constexpr (std::is_same_v<T, double>) {
    if (n <= 64) return invert(Layout<4, 8, 16, 8>());
  }
  if (n <= 96) return invert(Layout<6, 6, 16, 16>());
  if (n <= 128) return invert(Layout<8, 8, 16, 16>());
  if constexpr (kLargestInBlock<T> > 128) return invert(Layout<12, 6, 16, 32>());
  return nullptr;
}

#define OPGRAFT_INSTANTIATE(T) \
  template CudaError InvertInBlocks(const T*, T*, std::size_t, std::size_t, CudaStream);
OPGRAFT_INSTANTIATE(float)
OPGRAFT_INSTANTIATE(double)
OPGRAFT_INSTANTIATE(__half)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
