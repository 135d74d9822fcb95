// As much of CUDA's runtime as opgraft/contrib_cuda.h and opgraft/cuda.h call, on the fake driver.
#pragma once

#include <cstddef>
#include <utility>

#include "../fake_kernel.h"

struct CUstream_st;
using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1 };
struct cudaDeviceProp {
  int multiProcessorCount;
};

namespace fake {

/// What the last launch came to.
inline cudaError_t last_error = cudaSuccess;

}  // namespace fake

inline cudaError_t cudaGetLastError() { return std::exchange(fake::last_error, cudaSuccess); }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaErrorInvalidConfiguration"; }
inline const char* cudaGetErrorString(cudaError_t) { return "invalid configuration argument"; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  using Address = unsigned long long;
  fake::Find<int(Address, Address, std::size_t, void*)>("cuMemcpyAsync")(
      reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes, stream);
  // What comes from memory that is not pinned has been read by then.
  fake::Find<int(void*)>("cuStreamSynchronize")(stream);
  return cudaSuccess;
}
