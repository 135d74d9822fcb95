// Inverses of large matrices: blocked elimination in device memory, some columns at a time.
#include <algorithm>

#include "ops/contrib/inverse/inverse_parts.cuh"

namespace opgraft::contrib {
namespace {

constexpr int kWarpSize = 32;

// A panel is a run of columns that are eliminated before the others learn of it, in three kernels:
// 1. Factor: one block does the steps of the panel in its columns alone. What each step multiplies
//    its row by for the others goes to `factors`; 0 for the row itself.
// 2. Solve: the panel's rows, in the other columns, as each step finds them. It is changed by the
//    steps before it, so this is a triangular system.
// 3. Update: to all rows, in the other columns, the product of both is added.

/// Device memory for a batch of matrices. They are padded with zeros to a multiple of kTile.
template <class Real>
struct Workspace {
  static constexpr int kTile = 64;
  static constexpr int kMostWidth = 32;

  int n;
  /// n with the padding.
  int size;
  Real* elements;
  /// Of each step of a panel a column of `size`, and a row of `size`.
  Real* factors;
  Real* rows_taken;
  /// Of each row one by its pivot and its step, -1 before; of each step its row.
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

  /// That of one matrix of the batch.
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

constexpr int kCopyThreads = 256;

/// One block for each row of the padded matrices.
template <class T>
__global__ void __launch_bounds__(kCopyThreads)
    LoadKernel(Workspace<Computed<T>> batch, const T* matrices) {
  const std::size_t matrix = blockIdx.x / batch.size;
  const int row = static_cast<int>(blockIdx.x % batch.size);
  const auto work = batch.Of(matrix);
  const T* const from = matrices + (matrix * work.n + row) * work.n;
  for (int column = static_cast<int>(threadIdx.x); column < work.size; column += kCopyThreads) {
    work.Row(row)[column] = row < work.n && column < work.n ? Widen(from[column]) : Computed<T>{0};
  }
  if (threadIdx.x == 0) work.steps[row] = -1;
}

/// One block for each row of the inverses: inverse[i][p(k)] = M[p(i)][k], scaled.
template <class T>
__global__ void __launch_bounds__(kCopyThreads)
    StoreKernel(Workspace<Computed<T>> batch, T* inverses) {
  const std::size_t matrix = blockIdx.x / batch.n;
  const int step = static_cast<int>(blockIdx.x % batch.n);
  const auto work = batch.Of(matrix);
  const int row = work.rows[step];
  const Computed<T> scale = work.reciprocals[row];
  T* const to = inverses + (matrix * work.n + step) * work.n;
  for (int column = static_cast<int>(threadIdx.x); column < work.n; column += kCopyThreads) {
    to[column] = Narrow<T>(work.Row(row)[work.steps[column]] * scale);
  }
}

/// As many values as are read at once.
template <class Real>
using Vector = Elements<Real, kVectorBytes / sizeof(Real)>;

/// The rows thread, thread + kThreads, ..., kRows of them, and kWidth columns of each in registers.
/// The first register is that of the column that is eliminated next.
template <class Real, int kWidth, int kRows, int kThreads>
__global__ void __launch_bounds__(kThreads) FactorKernel(Workspace<Real> batch, int first) {
  constexpr int kLanes = kVectorBytes / sizeof(Real);
  constexpr int kWarps = kThreads / kWarpSize;
  // A row is told by the lowest bits of a magnitude, in which the first rows are the greatest.
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
    // What comes after the last column of the last panel is not needed.
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

/// The same for any number of rows: the panel stays in device memory.
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
    // Of equal ones the first.
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

constexpr int kSolveThreads = 64;

/// One thread for each column.
template <class Real, int kWidth>
__global__ void __launch_bounds__(kSolveThreads) SolveKernel(Workspace<Real> batch, int first) {
  constexpr int kLanes = kVectorBytes / sizeof(Real);
  // What step i multiplies its row by for that of step j, at [i][j].
  __shared__ Vector<Real> inner[kWidth][kWidth / kLanes];
  __shared__ int rows[kWidth];
  const int blocks = batch.size / kSolveThreads;
  const auto work = batch.Of(blockIdx.x / blocks);
  const int column =
      static_cast<int>(blockIdx.x % blocks) * kSolveThreads + static_cast<int>(threadIdx.x);
  const int width = work.n - first < kWidth ? work.n - first : kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kWidth; i += kSolveThreads) {
    rows[i] = i < width ? work.rows[first + i] : -1;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kWidth * kWidth; i += kSolveThreads) {
    const int step = i / kWidth;
    const int other = i % kWidth;
    inner[step][other / kLanes].of[other % kLanes] =
        step < width && rows[other] >= 0
            ? work.factors[static_cast<std::size_t>(step) * work.size + rows[other]]
            : Real{0};
  }
  Real values[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = rows[i] < 0 ? Real{0} : work.Row(rows[i])[column];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
#pragma unroll
    for (int j = i / kLanes * kLanes; j < kWidth; j += kLanes) {
      const Vector<Real> vector = inner[i][j / kLanes];
#pragma unroll
      for (int lane_of = 0; lane_of < kLanes; ++lane_of) {
        if (j + lane_of <= i) continue;
        values[j + lane_of] = Fused(vector.of[lane_of], values[i], values[j + lane_of]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    work.rows_taken[static_cast<std::size_t>(i) * work.size + column] = values[i];
  }
}

constexpr int kUpdateThreads = 128;
constexpr int kUpdateRows = 8;
constexpr int kUpdateColumns = 4;

/// One block for each tile, and eight times four elements of it for each thread.
template <class Real, int kWidth>
__global__ void __launch_bounds__(kUpdateThreads, sizeof(Real) == 4 ? 5 : 3)
    UpdateKernel(Workspace<Real> batch, int first) {
  constexpr int kTile = Workspace<Real>::kTile;
  constexpr int kAcross = kTile / kUpdateColumns;
  static_assert(kAcross * (kTile / kUpdateRows) == kUpdateThreads);
  using Row = Elements<Real, kUpdateColumns>;
  __shared__ Elements<Real, 4> factors[kWidth][kTile / 4];
  __shared__ Row rows[kWidth][kAcross];
  const int tiles = batch.size / kTile;
  const auto work = batch.Of(blockIdx.x / (tiles * tiles));
  const int tile = static_cast<int>(blockIdx.x % (tiles * tiles));
  const int first_row = tile / tiles * kTile;
  const int first_column = tile % tiles * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int width = work.n - first < kWidth ? work.n - first : kWidth;

  for (int i = thread; i < kWidth * kAcross; i += kUpdateThreads) {
    const int step = i / kAcross;
    const int place = i % kAcross;
    const std::size_t line = static_cast<std::size_t>(step) * work.size;
    Elements<Real, 4> factor = {};
    if (step < width) {
      factor =
          *reinterpret_cast<const Elements<Real, 4>*>(work.factors + line + first_row + place * 4);
    }
    factors[step][place] = factor;
    rows[step][place] =
        *reinterpret_cast<const Row*>(work.rows_taken + line + first_column + place * 4);
  }
  const int column = first_column + thread % kAcross * kUpdateColumns;
  const int row = first_row + thread / kAcross * kUpdateRows;
  Row sums[kUpdateRows];
#pragma unroll
  for (int i = 0; i < kUpdateRows; ++i) {
    sums[i] = *reinterpret_cast<const Row*>(work.Row(row + i) + column);
  }
  __syncthreads();
#pragma unroll 4
  for (int step = 0; step < kWidth; ++step) {
    const Row other = rows[step][thread % kAcross];
#pragma unroll
    for (int i = 0; i < kUpdateRows; i += 4) {
      const Elements<Real, 4> factor = factors[step][thread / kAcross * (kUpdateRows / 4) + i / 4];
#pragma unroll
      for (int lane_of = 0; lane_of < 4; ++lane_of) {
#pragma unroll
        for (int j = 0; j < kUpdateColumns; ++j) {
          sums[i + lane_of].of[j] = Fused(factor.of[lane_of], other.of[j], sums[i + lane_of].of[j]);
        }
      }
    }
  }
  // The panel's own columns are done.
  if (column >= first && column < first + kWidth) return;
#pragma unroll
  for (int i = 0; i < kUpdateRows; ++i) {
    *reinterpret_cast<Row*>(work.Row(row + i) + column) = sums[i];
  }
}

template <int kWidth, class Real>
CudaError Eliminate(void (*factor)(Workspace<Real>, int), int threads, const Workspace<Real>& work,
                    std::size_t count, CudaStream stream) {
  const auto size = static_cast<std::size_t>(work.size);
  const std::size_t tiles = size / Workspace<Real>::kTile;
  for (int first = 0; first < work.n; first += kWidth) {
    CudaError error = Launch(factor, count, threads, stream, work, first);
    if (error == nullptr) {
      error = Launch(SolveKernel<Real, kWidth>, count * (size / kSolveThreads), kSolveThreads,
                     stream, work, first);
    }
    if (error == nullptr) {
      error = Launch(UpdateKernel<Real, kWidth>, count * tiles * tiles, kUpdateThreads, stream,
                     work, first);
    }
    if (error != nullptr) return error;
  }
  return nullptr;
}

template <class Real>
CudaError EliminateAs(const Workspace<Real>& work, std::size_t count, CudaStream stream) {
  // As wide a panel as fits into the registers of one block. Doubles take two.
  constexpr int kWide = sizeof(Real) == 4 ? 32 : 16;
  const auto eliminate = [&]<int kWidth, int kRows, int kThreads>() {
    return Eliminate<kWidth>(FactorKernel<Real, kWidth, kRows, kThreads>, kThreads, work, count,
                             stream);
  };
  if (work.n <= 256) return eliminate.template operator()<kWide, 1, 256>();
  if (work.n <= 512) return eliminate.template operator()<kWide, 2, 256>();
  if (work.n <= 1024) return eliminate.template operator()<kWide, 4, 256>();
  if (work.n <= 2048) return eliminate.template operator()<kWide / 2, 4, 512>();
  constexpr int kNarrow = 8;
  constexpr int kThreads = 1024;
  if constexpr (sizeof(Real) == 4) {
    if (work.n <= 4096) return eliminate.template operator()<kNarrow, 4, kThreads>();
  }
  return Eliminate<kNarrow>(FactorTallKernel<Real, kNarrow, kThreads>, kThreads, work, count,
                            stream);
}

}  // namespace

template <class T>
CudaError InvertInMemory(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                         const DeviceScratch& scratch, CudaStream stream) {
  using Real = Computed<T>;
  constexpr std::size_t kScratchBytes = std::size_t{1} << 28;
  const std::size_t bytes = Workspace<Real>::BytesOfOne(n);
  const std::size_t together = std::min(count, std::max<std::size_t>(1, kScratchBytes / bytes));
  void* const memory = scratch.allocate(scratch.self, bytes * together);
  if (memory == nullptr) return kNoDeviceMemory;
  for (std::size_t first = 0; first < count; first += together) {
    const std::size_t here = std::min(together, count - first);
    const Workspace<Real> work(memory, n, here);
    CudaError error = Launch(LoadKernel<T>, here * work.size, kCopyThreads, stream, work,
                             matrices + first * n * n);
    if (error == nullptr) error = EliminateAs(work, here, stream);
    if (error == nullptr) {
      error =
          Launch(StoreKernel<T>, here * n, kCopyThreads, stream, work, inverses + first * n * n);
    }
    if (error != nullptr) return error;
  }
  return nullptr;
}

#define OPGRAFT_INSTANTIATE(T)                                                                    \
  template CudaError InvertInMemory(const T*, T*, std::size_t, std::size_t, const DeviceScratch&, \
                                    CudaStream);
OPGRAFT_INSTANTIATE(float)
OPGRAFT_INSTANTIATE(double)
OPGRAFT_INSTANTIATE(__half)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
