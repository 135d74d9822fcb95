// One thread for each element.
#include <cuda_runtime.h>

#include "ops/contrib/bessel_j0/bessel_j0_cuda.h"

namespace opgraft::contrib {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__global__ void Kernel(const T* x, T* y, std::size_t count, float scale) {
  const std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) y[i] = scale * static_cast<T>(j0(static_cast<double>(x[i])));
}

}  // namespace

template <class T>
CudaError BesselJ0Cuda(const T* x, T* y, std::size_t count, float scale, CudaStream stream) {
  if (count == 0) return nullptr;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  Kernel<T><<<blocks, kThreads, 0, stream>>>(x, y, count, scale);
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

template CudaError BesselJ0Cuda(const float*, float*, std::size_t, float, CudaStream);
template CudaError BesselJ0Cuda(const double*, double*, std::size_t, float, CudaStream);

}  // namespace opgraft::contrib
