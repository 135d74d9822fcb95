// What the interfaces of the CUDA kernels have in common. Needs no header of CUDA's.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace opgraft::contrib {

/// CUDA's cudaStream_t and CUstream.
using CudaStream = CUstream_st*;

/// What CUDA says of a failure, a text that lives for ever; null: the work is on the stream. What
/// happens while it runs, later, is known to whoever waits for the stream.
using CudaError = const char*;

/// Where a kernel has its device memory from. What it is given must stay until the work is over
/// that the kernel has put on its stream, and be aligned to 256 bytes; null: there is none left.
struct DeviceScratch {
  void* (*allocate)(void* self, std::size_t bytes);
  void* self;
};

inline constexpr char kNoDeviceMemory[] = "out of memory on the GPU";

}  // namespace opgraft::contrib
