// Gelu on the GPU.
#pragma once

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

/// Computes y = 0.5 x (1 + erf(x / sqrt 2)) for `count` elements in device memory, which need only
/// be aligned for elements. T is float, double, Float16 or BFloat16. y may be x, but must not
/// overlap it otherwise.
template <class T>
CudaError GeluCuda(const T* x, T* y, std::size_t count, CudaStream stream);

}  // namespace opgraft::contrib
