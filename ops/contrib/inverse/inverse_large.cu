// Inverts large matrices: blocked elimination in device memory, some columns at a time.
#include <algorithm>

#include "ops/contrib/inverse/inverse_panel.cuh"

namespace opgraft::contrib {
namespace {

// A panel is a run of columns that are eliminated before the other columns are updated, in three
// kernels:
// 1. Factor: one block does the panel's steps in the panel's columns only. The factors by which
//    each step multiplies its row for the other rows go to `factors`; 0 for the row itself.
// 2. Solve: computes the panel's pivot rows, in the other columns, as they are at their steps. Each
//    is changed by the steps before it, so this is a triangular system.
// 3. Update: adds the product of both to all rows, in the other columns.

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

constexpr int kSolveThreads = 64;

/// One thread for each column.
template <class Real, int kWidth>
__global__ void __launch_bounds__(kSolveThreads) SolveKernel(Workspace<Real> batch, int first) {
  constexpr int kLanes = kVectorBytes / sizeof(Real);
  // At [i][j], the factor by which step i multiplies its row for the row of step j.
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

/// One block for each tile; each thread computes eight by four elements of it.
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
  // The widest panel that fits into the registers of one block. A double takes two registers.
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
