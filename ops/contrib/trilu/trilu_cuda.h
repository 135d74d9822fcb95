// Trilu on the GPU.
#pragma once

#include "ops/contrib/cuda.h"
#include "ops/contrib/trilu/trilu_cpu.h"

namespace opgraft::contrib {

/// Like Trilu on the CPU, with x and y in device memory, which need only be aligned for elements.
/// The size of an element is 1, 2, 4, 8 or 16.
template <std::size_t kElementSize>
CudaError TriluCuda(const void* x, void* y, const TriluShape& shape, std::int64_t k, bool upper,
                    CudaStream stream);

}  // namespace opgraft::contrib
