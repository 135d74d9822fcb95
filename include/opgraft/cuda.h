// For CUDA kernels (.cu): reports CUDA errors as errors of the operator, and gives elements as
// CUDA's own types. Of the headers for operators, only this one needs CUDA's headers.
#pragma once

#if !__has_include(<cuda_runtime.h>)
#error opgraft/cuda.h is for CUDA sources: include it in a .cu file (rename your source, or move the \
code that needs it into one) and pass that file to opgraft build too, which needs nvcc
#endif
#include <cuda_runtime.h>

#include <string>
#include <type_traits>

#include "opgraft/cuda_element.h"
#include "opgraft/device_tensor.h"
#include "opgraft/kernel.h"

#pragma GCC visibility push(hidden)
namespace opgraft {

/// Throws if a call of CUDA failed. `what` says what was attempted:
/// CheckCuda(cudaMemcpyAsync(...), "copying the pivots").
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw KernelError(std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                    cudaGetErrorName(error) + ")");
}

/// Returns the elements of a tensor as CUDA's own type.
template <class T>
CudaElement<T>* CudaData(const DeviceTensor<T>& tensor) {
  return reinterpret_cast<CudaElement<T>*>(tensor.data());
}

}  // namespace opgraft
#pragma GCC visibility pop

#define OPGRAFT_CUDA_TEXT_(line) #line
#define OPGRAFT_CUDA_TEXT(line) OPGRAFT_CUDA_TEXT_(line)

/// Use after a launch, `kernel<<<...>>>(...);`: throws if CUDA refused it. Does not wait for the
/// kernel: errors while it runs are reported when the run is synchronised.
#define OPGRAFT_CUDA_LAUNCHED()            \
  ::opgraft::CheckCuda(cudaGetLastError(), \
                       "the launch before line " OPGRAFT_CUDA_TEXT(__LINE__) " of " __FILE__)
