// Inverts batches of square matrices on the GPU.
#pragma once

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

/// Inverts `count` row-major n×n matrices in device memory, which need only be aligned for
/// elements. T is float, double or Float16, which is computed as float. `inverses` may be
/// `matrices`, but must not overlap it otherwise. Does not wait for the GPU.
///
/// If a matrix is singular (a pivot is exactly 0), each element of its inverse is a NaN: reporting
/// an error would require waiting for the GPU. If rounding decides, the CPU may find other matrices
/// singular than the GPU.
template <class T>
CudaError InverseCuda(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                      const DeviceScratch& scratch, CudaStream stream);

}  // namespace opgraft::contrib
