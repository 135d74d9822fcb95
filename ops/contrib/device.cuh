// Shared by the CUDA kernels: stored elements, vectors of 16 bytes, and launching.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <opgraft/cuda_element.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

inline constexpr int kVectorBytes = 16;

/// kCount elements that are read and written at once; the address is a multiple of their total
/// size.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Elements {
  T of[kCount];
};

/// The type that device code uses for an element type of the interface.
template <class T>
using Stored = CudaElement<T>;

/// The type in which computations with a stored element are done.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float Widen(float x) { return x; }
__device__ inline double Widen(double x) { return x; }
__device__ inline float Widen(__half x) { return __half2float(x); }
__device__ inline float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T Narrow(Computed<T> x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

inline CudaError AsError(cudaError_t status) {
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

/// Puts a kernel on the stream. `blocks` must be less than 2^31.
template <class... Parameters, class... Arguments>
CudaError Launch(void (*kernel)(Parameters...), std::size_t blocks, int threads, CudaStream stream,
                 Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  return AsError(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// Splits the elements of two arrays into vectors, and single elements before and after them.
struct Division {
  std::size_t head = 0;
  std::size_t vectors = 0;
  /// The number of elements in a vector; 1 if the two arrays are aligned differently.
  int width = 1;
  /// One for each vector and for each single element.
  std::size_t threads = 0;
};

inline Division Divide(const void* x, const void* y, std::size_t count, std::size_t size) {
  const auto from = reinterpret_cast<std::uintptr_t>(x);
  const auto to = reinterpret_cast<std::uintptr_t>(y);
  Division division;
  division.width = static_cast<int>(kVectorBytes / size);
  if (from % kVectorBytes != to % kVectorBytes) division.width = 1;
  if (division.width > 1) {
    division.head = (kVectorBytes - from % kVectorBytes) % kVectorBytes / size;
    if (division.head > count) division.head = count;
  }
  division.vectors = (count - division.head) / division.width;
  division.threads = count - division.vectors * (division.width - 1);
  return division;
}

}  // namespace opgraft::contrib
