// The same operators on the GPU: what is called where a declaration says .Cuda(...).
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // CUDA's cudaStream_t points to it

/// z = x + y. All is in device memory. Gives CUDA's words on a failure, or null.
const char* AddOnGpu(const float* x, const float* y, float* z, std::size_t count,
                     CUstream_st* stream);

/// y = the integers nearest to x.
const char* RoundOnGpu(const float* x, std::int32_t* y, std::size_t count, CUstream_st* stream);
