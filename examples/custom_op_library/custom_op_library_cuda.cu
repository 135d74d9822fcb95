// The kernels of custom_op_library_cuda.h: one thread for each element.
#include <cuda_runtime.h>

#include "custom_op_library_cuda.h"

namespace {

constexpr unsigned kThreads = 256;

__device__ std::size_t Element() { return std::size_t{blockIdx.x} * kThreads + threadIdx.x; }

__global__ void Add(const float* x, const float* y, float* z, std::size_t count) {
  const std::size_t i = Element();
  if (i < count) z[i] = x[i] + y[i];
}

__global__ void Round(const float* x, std::int32_t* y, std::size_t count) {
  const std::size_t i = Element();
  if (i >= count) return;
  const float nearest = isnan(x[i]) ? 0.0F : rintf(x[i]);
  // 2147483520 is the largest float that an int32 can hold.
  y[i] = static_cast<std::int32_t>(fminf(fmaxf(nearest, -2147483648.0F), 2147483520.0F));
}

unsigned Blocks(std::size_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

const char* Error() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace

const char* AddOnGpu(const float* x, const float* y, float* z, std::size_t count,
                     CUstream_st* stream) {
  if (count == 0) return nullptr;
  Add<<<Blocks(count), kThreads, 0, stream>>>(x, y, z, count);
  return Error();
}

const char* RoundOnGpu(const float* x, std::int32_t* y, std::size_t count, CUstream_st* stream) {
  if (count == 0) return nullptr;
  Round<<<Blocks(count), kThreads, 0, stream>>>(x, y, count);
  return Error();
}
