// Maps element types to CUDA's own types. Does not need CUDA's headers.
#pragma once

#include "opgraft/element.h"

struct __half;         // from cuda_fp16.h
struct __nv_bfloat16;  // from cuda_bf16.h

#pragma GCC visibility push(hidden)
namespace opgraft {
namespace internal {

template <class T>
struct CudaElement {
  using Type = T;
};
template <>
struct CudaElement<Float16> {
  using Type = __half;
};
template <>
struct CudaElement<BFloat16> {
  using Type = __nv_bfloat16;
};
template <class T>
struct CudaElement<const T> {
  using Type = const typename CudaElement<T>::Type;
};

}  // namespace internal

/// `__half` for opgraft::Float16 and `__nv_bfloat16` for opgraft::BFloat16, const or not; any other
/// type stays as it is.
template <class T>
using CudaElement = typename internal::CudaElement<T>::Type;

}  // namespace opgraft
#pragma GCC visibility pop
