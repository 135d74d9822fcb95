// The same operators on the GPU: functions for declarations with .Cuda(...).
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // CUDA's cudaStream_t points to it

/// Computes z = x + y in device memory. Returns nullptr, or CUDA's text if it fails.
const char* AddOnGpu(const float* x, const float* y, float* z, std::size_t count,
                     CUstream_st* stream);

/// Rounds x to the nearest integers y, likewise.
const char* RoundOnGpu(const float* x, std::int32_t* y, std::size_t count, CUstream_st* stream);
