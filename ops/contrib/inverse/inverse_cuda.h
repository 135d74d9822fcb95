// Inverses of batches of square matrices on the GPU.
#pragma once

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

/// Inverts `count` row-major n×n matrices in device memory, aligned for elements only. T is float,
/// double or Float16, which is computed with as float. `inverses` may be `matrices`, but may not
/// overlap it in another way. Nothing waits for the GPU.
///
/// Of a singular matrix, one in which a pivot is exactly 0, each element of the inverse is a NaN:
/// to say more would take waiting for the GPU. Where rounding decides, other matrices may be found
/// singular than on the CPU.
template <class T>
CudaError InverseCuda(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                      const DeviceScratch& scratch, CudaStream stream);

}  // namespace opgraft::contrib
