// The part of libtorch that runs on GPUs, libtorch_cuda.so, which lies beside libtorch_cpu.so in a
// torch that was built with CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "aten/libtorch.h"
#include "opgraft/status.h"

namespace opgraft::aten {

struct StreamGuardObject;
using StreamGuard = StreamGuardObject*;

struct CudaPart {
  std::string path;
  /// Makes a stream (CUstream) the current one of a device in this thread, until the guard is
  /// deleted.
  Failure (*create_stream_guard)(void* stream, std::int32_t device, StreamGuard* guard) = nullptr;
  Failure (*delete_stream_guard)(StreamGuard guard) = nullptr;
  std::int32_t cuda = 0;  ///< libtorch's number of the device type CUDA

  /// Returns a function that not every version has, or nullptr.
  void* FindFunction(const char* name) const;

 private:
  friend Status LoadCudaPart(const std::string&, std::int32_t, CudaPart*);
  void* handle_ = nullptr;
};

/// A GPU for calls to run on.
struct Gpu {
  const CudaPart* part = nullptr;
  std::int32_t index = 0;
};

/// While it exists, libtorch's work in this thread goes to the stream.
class OnStream {
 public:
  OnStream(const Gpu& gpu, void* stream) : part_(*gpu.part) {
    if (part_.create_stream_guard(stream, gpu.index, &guard_) != 0) guard_ = nullptr;
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream() {
    if (guard_ != nullptr) (void)part_.delete_stream_guard(guard_);
  }

  bool ok() const { return guard_ != nullptr; }

 private:
  const CudaPart& part_;
  StreamGuard guard_ = nullptr;
};

/// Returns the path of the part that belongs to a libtorch_cpu.so, "" if there is none. Only looks
/// for the file.
std::string FindCudaPart(const std::string& libtorch);

/// Returns the part that belongs to the libtorch of this process; it is never unloaded. An
/// UnavailableError says what is missing, and a later call tries again. Any thread may call it.
Status GetCudaPart(const Libtorch& libtorch, const CudaPart** part);

/// Fills a table from a library; an UnavailableError if it lacks a function.
Status LoadCudaPart(const std::string& path, std::int32_t cuda, CudaPart* part);

}  // namespace opgraft::aten
