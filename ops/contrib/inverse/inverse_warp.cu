// Inverts small matrices: each in the registers of one warp or of some of its lanes.
#include "ops/contrib/inverse/inverse_parts.cuh"

namespace opgraft::contrib {
namespace {

constexpr int kWarpSize = 32;

/// How matrices of up to kSize rows are stored in registers. Lane (q, c) of a matrix holds kRows
/// rows starting with row q * kRows, and of each the kColumns columns c, c + kColumnGroups, ...
template <int kRows_, int kColumns_, int kRowGroups_, int kColumnGroups_, int kWarps_>
struct Layout {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kRowGroups = kRowGroups_;
  static constexpr int kColumnGroups = kColumnGroups_;
  static constexpr int kSize = kRows * kRowGroups;
  static constexpr int kLanes = kRowGroups * kColumnGroups;
  /// The number of matrices of one warp.
  static constexpr int kMatrices = kWarpSize / kLanes;
  /// The number of warps of one block.
  static constexpr int kWarps = kWarps_;
  static_assert(kSize == kColumns * kColumnGroups && kRows <= 8 && kRowGroups <= 8);
};

/// How the elements of a warp's matrices are stored in shared memory: row by row and matrix by
/// matrix, as in device memory, but with a gap of one element between units that have an even
/// number of elements, to avoid bank conflicts. A unit is a row, or a matrix if each has one lane.
struct Spacing {
  __device__ Spacing(int unit) : stride(unit | 1), gap(stride - unit) {
    reciprocal = 0xffffffffU / unit + 1;  // multiplying a number below 2^16 by it divides by `unit`
  }
  __device__ int Place(int i) const {
    return i + static_cast<int>(__umulhi(static_cast<unsigned>(i), reciprocal)) * gap;
  }

  int stride;
  int gap;
  unsigned reciprocal;
};

/// The pivot of step k of a matrix.
template <class Real>
struct Pivot {
  Real reciprocal;
  int row;
};

template <class T, class L>
struct WarpMemory {
  using Real = Computed<T>;
  Real elements[L::kMatrices * L::kSize * (L::kSize + 1)];
  Pivot<Real> pivots[L::kMatrices][L::kSize];
  /// The step in which each row was the pivot row.
  int steps[L::kMatrices][L::kSize];
};

/// How elements are copied: one by one, by vectors, or by vectors that do not cross units.
enum class Copying { kSingle, kVectors, kWholeVectors };

/// Calls `copy` for each vector or element, with the index of its first element and an array of the
/// elements' places in shared memory.
template <int kWidth, class Copy>
__device__ void CopyElements(int count, Copying copying, const Spacing& spacing, int lane,
                             const Copy& copy) {
  int done = 0;
  if (copying != Copying::kSingle) {
    done = count / kWidth * kWidth;
    const bool are_whole = copying == Copying::kWholeVectors;
#pragma unroll 4
    for (int i = lane * kWidth; i < done; i += kWarpSize * kWidth) {
      int places[kWidth];
      places[0] = spacing.Place(i);
#pragma unroll
      for (int j = 1; j < kWidth; ++j) places[j] = are_whole ? places[0] + j : spacing.Place(i + j);
      copy(i, places);
    }
  }
#pragma unroll 4
  for (int i = done + lane; i < count; i += kWarpSize) {
    const int places[1] = {spacing.Place(i)};
    copy(i, places);
  }
}

/// The matrices of one warp in its registers. The first register of a row holds the columns that
/// are eliminated next: registers are rotated, so that the elimination is a loop.
template <class Real, class L>
class Lane {
 public:
  __device__ Lane(int lane, int n)
      : n_(n),
        matrix_(lane / L::kLanes),
        first_lane_(matrix_ * L::kLanes),
        row_group_(lane % L::kLanes / L::kColumnGroups),
        column_group_(lane % L::kColumnGroups) {}

  /// Rows and columns from n on get arbitrary values, which do not affect the others.
  __device__ void Load(const Real* elements, const Spacing& spacing) {
#pragma unroll
    for (int i = 0; i < L::kRows; ++i) {
      const int row = row_group_ * L::kRows + i;
      tags_[i] = row < n_ ? kTagMask - (row_group_ * 8 + i) : -1;
      const Real* const from = elements + RowPlace(row, spacing) + column_group_;
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) values_[i][j] = from[j * L::kColumnGroups];
    }
  }

  template <class Pivots>
  __device__ void Eliminate(Pivots& pivots) {
    for (int k = 0; k < n_; k += L::kColumnGroups) {
#pragma unroll
      for (int group = 0; group < L::kColumnGroups; ++group) {
        const bool rotates = group + 1 == L::kColumnGroups;
        if (L::kColumnGroups == 1 || k + group < n_) {
          Step(k + group, group, rotates, pivots);
        } else if (rotates) {
#pragma unroll
          for (int i = 0; i < L::kRows; ++i) Rotate(values_[i]);
        }
      }
    }
  }

  /// Stores each element of the inverse at its place.
  template <class Memory>
  __device__ void Store(Memory& memory, const Spacing& spacing) const {
    const int rotated = (n_ + L::kColumnGroups - 1) / L::kColumnGroups;
    int columns[L::kColumns];
#pragma unroll
    for (int j = 0; j < L::kColumns; ++j) {
      const int place = j + rotated < L::kColumns ? j + rotated : j + rotated - L::kColumns;
      const int column = place * L::kColumnGroups + column_group_;
      columns[j] = column < n_ ? memory.pivots[matrix_][column].row : -1;
    }
#pragma unroll
    for (int i = 0; i < L::kRows; ++i) {
      const int row = row_group_ * L::kRows + i;
      if (row >= n_) continue;
      const int step = memory.steps[matrix_][row];
      const Real scale = memory.pivots[matrix_][step].reciprocal;
      Real* const to = memory.elements + RowPlace(step, spacing);
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        if (columns[j] >= 0) to[columns[j]] = values_[i][j] * scale;
      }
    }
  }

  /// Stores the step in which each row was the pivot row.
  template <class Memory>
  __device__ void NoteSteps(Memory& memory) const {
    const int lane = row_group_ * L::kColumnGroups + column_group_;
    for (int k = lane; k < n_; k += L::kLanes) {
      memory.steps[matrix_][memory.pivots[matrix_][k].row] = k;
    }
  }

 private:
  /// The lowest bits of a magnitude are replaced by the row's tag, which is different for each row
  /// of a matrix and greatest for the first ones. A row that has been a pivot row has all bits set.
  static constexpr int kTagMask = 63;
  static constexpr int kMagnitudeMask = 0x7fffffff & ~kTagMask;

  /// Returns where a row begins in shared memory.
  __device__ int RowPlace(int row, const Spacing& spacing) const {
    return L::kLanes == 1 ? matrix_ * spacing.stride + row * n_
                          : (matrix_ * n_ + row) * spacing.stride;
  }

  __device__ Real FromLane(Real value, int lane) const {
    if constexpr (L::kLanes == 1) {
      return value;
    } else {
      return __shfl_sync(kWholeWarp, value, first_lane_ + lane);
    }
  }

  /// Returns the greatest key of the lanes of a matrix that hold the same columns.
  __device__ static int GreatestOfRows(int key) {
    if constexpr (L::kLanes == kWarpSize) {
      return GreatestOfWarp(key);
    } else {
#pragma unroll
      for (int by = L::kLanes / 2; by >= L::kColumnGroups; by /= 2) {
        const int other = __shfl_xor_sync(kWholeWarp, key, by);
        key = other > key ? other : key;
      }
      return key;
    }
  }

  __device__ static void Rotate(Real (&values)[L::kColumns]) {
    const Real first = values[0];
#pragma unroll
    for (int j = 0; j + 1 < L::kColumns; ++j) values[j] = values[j + 1];
    values[L::kColumns - 1] = first;
  }

  /// Eliminates column k, which is the first column of a group's lanes, and rotates if requested.
  template <class Pivots>
  __device__ __forceinline__ void Step(int k, int group, bool rotates, Pivots& pivots) {
    Real factors[L::kRows];
    int key = -1;
#pragma unroll
    for (int i = 0; i < L::kRows; ++i) {
      factors[i] = L::kColumnGroups == 1
                       ? values_[i][0]
                       : FromLane(values_[i][0], row_group_ * L::kColumnGroups + group);
      const int candidate = (MagnitudeBits(factors[i]) & kMagnitudeMask) | tags_[i];
      key = candidate > key ? candidate : key;
    }
    const int tag = GreatestOfRows(key) & kTagMask;
    const int pivot_group = (kTagMask - tag) >> 3;
    const int pivot_row = (kTagMask - tag) & 7;
    const int source = pivot_group * L::kColumnGroups + column_group_;
    const bool has_column = L::kColumnGroups == 1 || column_group_ == group;

    // The column itself keeps the factors for the other columns, and 1 in the pivot row.
    Real pivot;
    Real taken[L::kColumns];
    Real rest[L::kRows];
#pragma unroll
    for (int i = 0; i < L::kRows; ++i) rest[i] = has_column ? Real{0} : values_[i][0];
    if constexpr (L::kLanes == kWarpSize) {
      // The row is the same for the whole warp: a branch is cheaper than selecting each register.
      const bool has_row = row_group_ == pivot_group;
      WithConstant<L::kRows>(pivot_row, [&]<int kRow>() {
        pivot = FromLane(factors[kRow], source);
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) taken[j] = FromLane(values_[kRow][j], source);
        if (has_row) {
          tags_[kRow] = -1;
          factors[kRow] = 0;
          if (has_column) rest[kRow] = 1;
        }
      });
    } else {
      pivot = factors[0];
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) taken[j] = values_[0][j];
#pragma unroll
      for (int i = 1; i < L::kRows; ++i) {
        const bool is_row = pivot_row == i;
        pivot = is_row ? factors[i] : pivot;
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) taken[j] = is_row ? values_[i][j] : taken[j];
      }
      pivot = FromLane(pivot, source);
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) taken[j] = FromLane(taken[j], source);
#pragma unroll
      for (int i = 0; i < L::kRows; ++i) {
        if (tags_[i] != tag) continue;
        tags_[i] = -1;
        factors[i] = 0;
        if (has_column) rest[i] = 1;
      }
    }

    const Real reciprocal = ReciprocalOf(pivot);
    if (row_group_ == 0 && column_group_ == 0) {
      pivots[matrix_][k] = {reciprocal, pivot_group * L::kRows + pivot_row};
    }
    if (has_column) taken[0] = 1;
#pragma unroll
    for (int i = 0; i < L::kRows; ++i) {
      const Real factor = -factors[i] * reciprocal;
      const Real first = Fused(factor, taken[0], rest[i]);
      // Each is written directly to its place after the rotation.
#pragma unroll
      for (int j = 1; j < L::kColumns; ++j) {
        values_[i][rotates ? j - 1 : j] = Fused(factor, taken[j], values_[i][j]);
      }
      values_[i][rotates ? L::kColumns - 1 : 0] = first;
    }
  }

  int n_;
  int matrix_;
  int first_lane_;
  int row_group_;
  int column_group_;
  int tags_[L::kRows];
  Real values_[L::kRows][L::kColumns];
};

template <class T, class L>
__global__ void __launch_bounds__(L::kWarps* kWarpSize)
    InvertKernel(const T* matrices, T* inverses, int n, std::size_t count, Copying copying) {
  using Real = Computed<T>;
  constexpr int kWidth = kVectorBytes / sizeof(T);
  __shared__ WarpMemory<T, L> memory_of[L::kWarps];
  const int lane = threadIdx.x % kWarpSize;
  WarpMemory<T, L>& memory = memory_of[threadIdx.x / kWarpSize];
  const std::size_t first =
      (std::size_t{blockIdx.x} * L::kWarps + threadIdx.x / kWarpSize) * L::kMatrices;
  if (first >= count) return;
  // The last warp also computes matrices that do not exist, from arbitrary memory contents.
  const int elements =
      static_cast<int>(count - first < L::kMatrices ? count - first : L::kMatrices) * n * n;
  const Spacing spacing(L::kLanes == 1 ? n * n : n);

  const T* const from = matrices + first * n * n;
  CopyElements<kWidth>(
      elements, copying, spacing, lane, [&]<int kCount>(int i, const int (&places)[kCount]) {
        const auto vector = *reinterpret_cast<const Elements<T, kCount>*>(from + i);
#pragma unroll
        for (int j = 0; j < kCount; ++j) memory.elements[places[j]] = Widen(vector.of[j]);
      });
  __syncwarp();
  Lane<Real, L> part(lane, n);
  part.Load(memory.elements, spacing);
  part.Eliminate(memory.pivots);
  __syncwarp();
  part.NoteSteps(memory);
  __syncwarp();
  part.Store(memory, spacing);
  __syncwarp();
  T* const to = inverses + first * n * n;
  CopyElements<kWidth>(elements, copying, spacing, lane,
                       [&]<int kCount>(int i, const int (&places)[kCount]) {
                         Elements<T, kCount> vector;
#pragma unroll
                         for (int j = 0; j < kCount; ++j)
                           vector.of[j] = Narrow<T>(memory.elements[places[j]]);
                         *reinterpret_cast<Elements<T, kCount>*>(to + i) = vector;
                       });
}

template <class L, class T>
CudaError InvertAs(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                   CudaStream stream) {
  const auto is_aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kVectorBytes == 0;
  };
  Copying copying = Copying::kSingle;
  if (L::kMatrices * n * n * sizeof(T) % kVectorBytes == 0 && is_aligned(matrices) &&
      is_aligned(inverses)) {
    const std::size_t unit = L::kLanes == 1 ? n * n : n;
    copying = unit * sizeof(T) % kVectorBytes == 0 ? Copying::kWholeVectors : Copying::kVectors;
  }
  constexpr std::size_t kOfBlock = L::kMatrices * L::kWarps;
  return Launch(InvertKernel<T, L>, (count + kOfBlock - 1) / kOfBlock, L::kWarps * kWarpSize,
                stream, matrices, inverses, n, count, copying);
}

}  // namespace

template <class T>
CudaError InvertInWarps(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                        CudaStream stream) {
  const auto invert = [&]<class L>(L) { return InvertAs<L>(matrices, inverses, n, count, stream); };
  if (n <= 2) return invert(Layout<2, 2, 1, 1, 4>());
  if (n == 3) return invert(Layout<3, 3, 1, 1, 4>());
  if (n == 4) return invert(Layout<4, 4, 1, 1, 4>());
  if (n <= 8) return invert(Layout<2, 8, 4, 1, 4>());
  if (n <= 12) return invert(Layout<3, 12, 4, 1, 4>());
  if (n <= 16) return invert(Layout<2, 16, 8, 1, 4>());
  if (n <= 24) return invert(Layout<3, 6, 8, 4, 4>());
  if (n <= 32) return invert(Layout<4, 8, 8, 4, 4>());
  if constexpr (kLargestInWarp<T> > 32) {
    if (n <= 48) return invert(Layout<6, 12, 8, 4, 2>());
    return invert(Layout<8, 16, 8, 4, 2>());
  }
  return nullptr;
}

#define OPGRAFT_INSTANTIATE(T) \
  template CudaError InvertInWarps(const T*, T*, std::size_t, std::size_t, CudaStream);
OPGRAFT_INSTANTIATE(float)
OPGRAFT_INSTANTIATE(double)
OPGRAFT_INSTANTIATE(__half)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
