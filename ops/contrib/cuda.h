// The types that the interfaces of the CUDA kernels share. Needs no header of CUDA.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace opgraft::contrib {

/// CUDA's cudaStream_t and CUstream.
using CudaStream = CUstream_st*;

/// CUDA's message about a failure, a text that is never freed; null if the work is on the stream.
/// Errors that occur later, while the work runs, are reported to the code that waits for the
/// stream.
using CudaError = const char*;

/// Provides a kernel with device memory. The memory must stay valid until the work that the kernel
/// has put on its stream is done, and be aligned to 256 bytes. Null if the GPU is out of memory.
struct DeviceScratch {
  void* (*allocate)(void* self, std::size_t bytes);
  void* self;
};

inline constexpr char kNoDeviceMemory[] = "out of memory on the GPU";

}  // namespace opgraft::contrib
