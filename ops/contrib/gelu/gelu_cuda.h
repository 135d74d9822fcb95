// Gelu on the GPU.
#pragma once

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

/// y = 0.5 x (1 + erf(x / sqrt 2)) for `count` elements in device memory, aligned for elements
/// only. T is float, double, Float16 or BFloat16. y may be x, but may not overlap it in another
/// way.
template <class T>
CudaError GeluCuda(const T* x, T* y, std::size_t count, CudaStream stream);

}  // namespace opgraft::contrib
