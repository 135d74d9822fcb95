// CUDA's driver, loaded when it is first needed: the functions of libcuda that the provider calls.
//
// CUDA's toolkit is needed neither to build nor to run this: the driver comes with the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "opgraft/status.h"

struct CUctx_st;
struct CUmemPoolHandle_st;
struct CUstream_st;

namespace opgraft::cuda {

using Context = CUctx_st*;
using Pool = CUmemPoolHandle_st*;
using Stream = CUstream_st*;  ///< nullptr is the default stream, which waits for blocking ones
using Address = unsigned long long;  // NOLINT(google-runtime-int): CUdeviceptr

inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;

/// CUmemPoolProps, of which we set the first members.
struct PoolProperties {
  int allocation_type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;
  int location_type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int location = 0;
  std::byte rest[112] = {};
};

/// The functions, in the order of kNames in driver.cc. All return 0 or the number of an error.
struct Driver {
  int (*Init)(unsigned flags);
  int (*GetErrorName)(int error, const char** name);
  int (*GetErrorString)(int error, const char** text);
  int (*DeviceGetCount)(int* count);
  int (*DeviceGet)(int* device, int index);
  int (*DeviceGetName)(char* name, int size, int device);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  int (*DeviceTotalMem)(std::size_t* bytes, int device);
  int (*DevicePrimaryCtxRetain)(Context* context, int device);
  int (*CtxGetCurrent)(Context* context);
  int (*CtxSetCurrent)(Context context);
  int (*CtxSynchronize)();
  int (*StreamCreate)(Stream* stream, unsigned flags);
  int (*StreamSynchronize)(Stream stream);
  int (*StreamIsCapturing)(Stream stream, int* status);
  int (*ThreadExchangeStreamCaptureMode)(int* mode);
  int (*MemPoolCreate)(Pool* pool, const PoolProperties* properties);
  int (*MemPoolSetAttribute)(Pool pool, int attribute, void* value);
  int (*MemPoolTrimTo)(Pool pool, std::size_t bytes);
  int (*MemAllocFromPoolAsync)(Address* memory, std::size_t bytes, Pool pool, Stream stream);
  int (*MemFreeAsync)(Address memory, Stream stream);
  int (*MemHostAlloc)(void** memory, std::size_t bytes, unsigned flags);
  int (*MemFreeHost)(void* memory);
  int (*MemcpyAsync)(Address to, Address from, std::size_t bytes, Stream stream);
  int (*PointerGetAttribute)(void* value, int attribute, Address memory);
};

/// Returns the driver, or why there is none. It is loaded once; an error is permanent, too.
const Status& LoadDriver(const Driver** driver);

/// Returns OK for 0, else "CUDA cannot `what`: ...", with CUDA's own text and what to do.
Status Check(const Driver& driver, int result, std::string_view what);

}  // namespace opgraft::cuda
