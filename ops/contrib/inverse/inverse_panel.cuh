// Large matrices: eliminates a panel of columns in one block, and defines the shared device memory.
#pragma once

#include "ops/contrib/inverse/inverse_parts.cuh"

namespace opgraft::contrib {
namespace {

constexpr int kWarpSize = 32;

/// Device memory for a batch of matrices, which are padded with zeros to a multiple of kTile.
template <class Real>
struct Workspace {
  static constexpr int kTile = 64;
  static constexpr int kMostWidth = 32;

  int n;
  /// n with the padding.
  int size;
  Real* elements;
  /// For each step of a panel, a column and a row of `size` elements.
  Real* factors;
  Real* rows_taken;
  /// For each row, the reciprocal of its pivot and its step (-1 before that); for each step its
  /// row.
  Real* reciprocals;
  int* steps;
  int* rows;

  static std::size_t PaddedSize(std::size_t n) { return (n + kTile - 1) / kTile * kTile; }

  /// A multiple of 256.
  static std::size_t BytesOfOne(std::size_t n) {
    const std::size_t size = PaddedSize(n);
    return size * ((size + 2 * kMostWidth + 1) * sizeof(Real) + 2 * sizeof(int));
  }

  Workspace(void* memory, std::size_t matrix_size, std::size_t count)
      : n(static_cast<int>(matrix_size)), size(static_cast<int>(PaddedSize(matrix_size))) {
    const std::size_t line = static_cast<std::size_t>(size) * count;
    elements = static_cast<Real*>(memory);
    factors = elements + line * size;
    rows_taken = factors + line * kMostWidth;
    reciprocals = rows_taken + line * kMostWidth;
    steps = reinterpret_cast<int*>(reciprocals + line);
    rows = steps + line;
  }

  /// Returns the part for one matrix of the batch.
  __device__ Workspace Of(std::size_t matrix) const {
    Workspace one = *this;
    const std::size_t line = matrix * size;
    one.elements += line * size;
    one.factors += line * kMostWidth;
    one.rows_taken += line * kMostWidth;
    one.reciprocals += line;
    one.steps += line;
    one.rows += line;
    return one;
  }

  __device__ Real* Row(int row) const { return elements + static_cast<std::size_t>(row) * size; }
};

/// The values that are read at once.
template <class Real>
using Vector = Elements<Real, kVectorBytes / sizeof(Real)>;

/// Each thread holds kRows rows, thread, thread + kThreads, ..., with kWidth columns of each in
/// registers. The first register is that of the column that is eliminated next.
template <class Real, int kWidth, int kRows, int kThreads>
__global__ void __launch_bounds__(kThreads) FactorKernel(Workspace<Real> batch, int first) {
  constexpr int kLanes = kVectorBytes / sizeof(Real);
  constexpr int kWarps = kThreads / kWarpSize;
  // The lowest bits of a magnitude identify the row; they are greatest for the first rows.
  constexpr int kTagMask = kRows * kThreads - 1;
  constexpr int kMagnitudeMask = 0x7fffffff & ~kTagMask;
  static_assert((kRows * kThreads & kTagMask) == 0 && kWarps <= kWarpSize);
  __shared__ int keys[kWarps];
  __shared__ Vector<Real> taken_row[kWidth / kLanes];
  const auto work = batch.Of(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;

  Real values[kRows][kWidth];
  int tags[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = thread + i * kThreads;
    tags[i] = row < work.n && work.steps[row] < 0 ? kTagMask - row : -1;
#pragma unroll
    for (int j = 0; j < kWidth; j += kLanes) {
      Vector<Real> vector = {};
      if (row < work.size) {
        vector = *reinterpret_cast<const Vector<Real>*>(work.Row(row) + first + j);
      }
#pragma unroll
      for (int lane_of = 0; lane_of < kLanes; ++lane_of)
        values[i][j + lane_of] = vector.of[lane_of];
    }
  }

  const int width = work.n - first < kWidth ? work.n - first : kWidth;
#pragma unroll 1
  for (int step = 0; step < width; ++step) {
    int key = -1;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int candidate = (MagnitudeBits(values[i][0]) & kMagnitudeMask) | tags[i];
      key = candidate > key ? candidate : key;
    }
    key = GreatestOfWarp(key);
    if (lane == 0) keys[thread / kWarpSize] = key;
    __syncthreads();
    const int tag = GreatestOfWarp(lane < kWarps ? keys[lane] : -1) & kTagMask;
    const int pivot_row = kTagMask - tag;
    if (thread == pivot_row % kThreads) {
      WithConstant<kRows>(pivot_row / kThreads, [&]<int kRow>() {
#pragma unroll
        for (int j = 0; j < kWidth; j += kLanes) {
          Vector<Real> vector;
#pragma unroll
          for (int lane_of = 0; lane_of < kLanes; ++lane_of) {
            vector.of[lane_of] = values[kRow][j + lane_of];
          }
          taken_row[j / kLanes] = vector;
        }
      });
    }
    __syncthreads();
    const Real reciprocal = ReciprocalOf(taken_row[0].of[0]);
    Real factors[kRows];
    Real column[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread + i * kThreads;
      const bool is_taken = tags[i] == tag;
      factors[i] = is_taken ? Real{0} : -values[i][0] * reciprocal;
      column[i] = is_taken ? Real{1} : factors[i];
      if (is_taken) {
        tags[i] = -1;
        work.steps[row] = first + step;
        work.rows[first + step] = row;
        work.reciprocals[row] = reciprocal;
      }
      if (row < work.size) {
        work.factors[static_cast<std::size_t>(step) * work.size + row] = factors[i];
      }
    }
#pragma unroll
    for (int j = 0; j < kWidth; j += kLanes) {
      const Vector<Real> vector = taken_row[j / kLanes];
#pragma unroll
      for (int lane_of = j == 0 ? 1 : 0; lane_of < kLanes; ++lane_of) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          values[i][j + lane_of - 1] =
              Fused(factors[i], vector.of[lane_of], values[i][j + lane_of]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) values[i][kWidth - 1] = column[i];
  }

#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = thread + i * kThreads;
    if (row >= work.size) continue;
    // The memory after the last column of the last panel is not needed.
    Real* const to = work.Row(row) + first + width - kWidth;
#pragma unroll
    for (int j = 0; j < kWidth; j += kLanes) {
      if (width == kWidth) {
        Vector<Real> vector;
#pragma unroll
        for (int lane_of = 0; lane_of < kLanes; ++lane_of) {
          vector.of[lane_of] = values[i][j + lane_of];
        }
        *reinterpret_cast<Vector<Real>*>(to + j) = vector;
      } else {
#pragma unroll
        for (int lane_of = 0; lane_of < kLanes; ++lane_of) {
          if (j + lane_of >= kWidth - width) to[j + lane_of] = values[i][j + lane_of];
        }
      }
    }
  }
}

/// The same for any number of rows, with the panel in device memory.
template <class Real, int kWidth, int kThreads>
__global__ void __launch_bounds__(kThreads) FactorTallKernel(Workspace<Real> batch, int first) {
  constexpr int kWarps = kThreads / kWarpSize;
  __shared__ int keys[kWarps];
  __shared__ int places[kWarps];
  __shared__ Real taken_row[kWidth];
  const auto work = batch.Of(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;

  const auto greatest_of_block = [&](int value, int* shared) {
    value = GreatestOfWarp(value);
    if (lane == 0) shared[thread / kWarpSize] = value;
    __syncthreads();
    return GreatestOfWarp(lane < kWarps ? shared[lane] : -1);
  };

  const int width = work.n - first < kWidth ? work.n - first : kWidth;
  for (int step = 0; step < width; ++step) {
    int key = -1;
    int place = -1;
    for (int row = thread; row < work.n; row += kThreads) {
      if (work.steps[row] >= 0) continue;
      const int candidate = MagnitudeBits(work.Row(row)[first + step]);
      if (candidate <= key) continue;
      key = candidate;
      place = row;
    }
    const int greatest = greatest_of_block(key, keys);
    // The first of equal magnitudes.
    const int pivot_row =
        work.n - 1 -
        greatest_of_block(key == greatest && place >= 0 ? work.n - 1 - place : -1, places);
    if (thread < kWidth) taken_row[thread] = work.Row(pivot_row)[first + thread];
    __syncthreads();
    const Real reciprocal = ReciprocalOf(taken_row[step]);
    for (int row = thread; row < work.size; row += kThreads) {
      Real* const values = work.Row(row) + first;
      const bool is_taken = row == pivot_row;
      const Real factor = is_taken ? Real{0} : -values[step] * reciprocal;
      work.factors[static_cast<std::size_t>(step) * work.size + row] = factor;
      if (is_taken) {
        work.steps[row] = first + step;
        work.rows[first + step] = row;
        work.reciprocals[row] = reciprocal;
        values[step] = 1;
        continue;
      }
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        values[j] = j == step ? factor : Fused(factor, taken_row[j], values[j]);
      }
    }
    __syncthreads();
  }
}

}  // namespace
}  // namespace opgraft::contrib
