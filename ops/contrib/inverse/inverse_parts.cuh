// The parts of InverseCuda, one for each range of sizes, and the functions that they share.
#pragma once

#include "ops/contrib/device.cuh"

namespace opgraft::contrib {

// Each is Gauss-Jordan elimination in place, with partial pivoting of rows. No row is moved: step k
// chooses one of the remaining rows, p(k), as the pivot row. The resulting matrix M has
// M[p(i)][k] = inverse[i][p(k)]. Rows are scaled at the end, not at their steps, so that the pivot
// row needs no special treatment: its factor is 0.

/// The largest n of matrices that one warp inverts, alone or with others, in registers.
template <class T>
inline constexpr std::size_t kLargestInWarp = sizeof(Computed<T>) == 4 ? 64 : 32;

/// T is the type that is stored on the device: float, double or __half. n is 1 to kLargestInWarp.
template <class T>
CudaError InvertInWarps(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                        CudaStream stream);

/// The largest n of matrices that one block inverts in registers.
template <class T>
inline constexpr std::size_t kLargestInBlock = sizeof(Computed<T>) == 4 ? 192 : 128;

/// The same for n from kLargestInWarp + 1 to kLargestInBlock.
template <class T>
CudaError InvertInBlocks(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                         CudaStream stream);

/// The same for any n, with scratch memory for all matrices, or for some of them at a time.
template <class T>
CudaError InvertInMemory(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                         const DeviceScratch& scratch, CudaStream stream);

/// The smallest n for which cuSOLVER is faster.
inline constexpr std::size_t kLeastByLibrary = 2049;

/// The same for any n, with cuSOLVER. Returns false, and does nothing, if there is no cuSOLVER.
template <class T>
bool InvertByLibrary(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                     const DeviceScratch& scratch, CudaStream stream, CudaError* error);

/// Returns the bits of the magnitude of x: those of a float, or the upper half of those of a
/// double. They have the order of the magnitudes, with NaN as the greatest.
__device__ inline int MagnitudeBits(float x) { return __float_as_int(x) & 0x7fffffff; }
__device__ inline int MagnitudeBits(double x) { return __double2hiint(x) & 0x7fffffff; }

__device__ inline float Fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double Fused(double a, double b, double c) { return fma(a, b, c); }

/// Returns 1 / pivot, or for zero a NaN, which the elimination then spreads to every element.
__device__ inline float ReciprocalOf(float pivot) {
  return pivot == 0 ? __int_as_float(0x7fffffff) : __frcp_rn(pivot);
}
__device__ inline double ReciprocalOf(double pivot) {
  return pivot == 0 ? __longlong_as_double(0x7fffffffffffffffLL) : 1 / pivot;
}

inline constexpr unsigned kWholeWarp = 0xffffffffU;

/// Returns the greatest of a warp's numbers.
__device__ inline int GreatestOfWarp(int value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  for (int by = 16; by > 0; by /= 2) {
    const int other = __shfl_xor_sync(kWholeWarp, value, by);
    value = other > value ? other : value;
  }
  return value;
#else
  return __reduce_max_sync(kWholeWarp, value);
#endif
}

/// Calls function.template operator()<index>() for an index below kCount that is the same in all
/// threads, by branches.
template <int kCount, int kFirst = 0, class Function>
__device__ inline void WithConstant(int index, const Function& function) {
  if constexpr (kCount == 1) {
    function.template operator()<kFirst>();
  } else {
    constexpr int kHalf = kCount / 2;
    if (index < kFirst + kHalf) {
      WithConstant<kHalf, kFirst>(index, function);
    } else {
      WithConstant<kCount - kHalf, kFirst + kHalf>(index, function);
    }
  }
}

}  // namespace opgraft::contrib
