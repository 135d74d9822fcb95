// The Bessel function of order 0 on a GPU.
#pragma once

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

template <class T>
CudaError BesselJ0Cuda(const T* x, T* y, std::size_t count, float scale, CudaStream stream);

}  // namespace opgraft::contrib
