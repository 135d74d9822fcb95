// For the sources of CUDA kernels (.cu): errors of CUDA as errors of an operator, and elements as
// CUDA's own types. This header alone needs CUDA's.
#pragma once

#if !__has_include(<cuda_runtime.h>)
#error opgraft/cuda.h is for sources of CUDA: include it in a .cu file (name yours so, or move \
what needs it into one), and have opgraft build take that too, which needs nvcc
#endif
#include <cuda_runtime.h>

#include <string>
#include <type_traits>

#include "opgraft/cuda_element.h"
#include "opgraft/device_tensor.h"
#include "opgraft/kernel.h"

#pragma GCC visibility push(hidden)
namespace opgraft {

/// Throws where a call of CUDA's failed; the text says `what` was tried: CheckCuda(
/// cudaMemcpyAsync(...), "copying the pivots").
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw KernelError(std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                    cudaGetErrorName(error) + ")");
}

/// The elements of a tensor as CUDA knows them.
template <class T>
CudaElement<T>* CudaData(const DeviceTensor<T>& tensor) {
  return reinterpret_cast<CudaElement<T>*>(tensor.data());
}

}  // namespace opgraft
#pragma GCC visibility pop

#define OPGRAFT_CUDA_TEXT_(line) #line
#define OPGRAFT_CUDA_TEXT(line) OPGRAFT_CUDA_TEXT_(line)

/// Behind a launch, `kernel<<<...>>>(...);`: throws where CUDA refused it. Does not wait for the
/// kernel: what goes wrong while it runs is found when the run is waited for.
#define OPGRAFT_CUDA_LAUNCHED()            \
  ::opgraft::CheckCuda(cudaGetLastError(), \
                       "the launch before line " OPGRAFT_CUDA_TEXT(__LINE__) " of " __FILE__)
