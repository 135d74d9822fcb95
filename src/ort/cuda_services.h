// What the execution provider OpgraftCUDA does for the kernels that run on it.
//
// The provider is a library of its own, libopgraft_cuda.so. A kernel, of libopgraft or of any pack,
// finds it by the OrtEp of its node: the struct below begins as an OrtEp does. Packs that were
// built long ago read it, so that it only ever grows at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/calls.h"
#include "ort/runtime.h"

struct OrtEp;
struct OrtEpApi;

namespace opgraft::ort {

/// The provider's name, and the type of its kernels.
inline constexpr char kCudaProvider[] = "OpgraftCUDA";

/// The first of ONNX Runtime that can have it.
inline constexpr RuntimeVersion kOldestCudaRuntime{1, 24, 0};

/// The functions that an OrtEp may have in any version of the runtime, some of them not yet.
inline constexpr std::size_t kEpSlots = 63;

struct CudaProvider {
  std::uint32_t ort_version = 0;
  void* slots[kEpSlots] = {};

  /// Of this struct from here on; raised when it grows.
  std::uint32_t version = 3;
  int device = 0;
  /// The stream (CUstream) of the run that this thread is in.
  void* (*stream)(const CudaProvider*) = nullptr;
  /// Memory of the device for work that is put on that stream from now on; nullptr where there is
  /// none. Given back, it is free for others when all work is done that is on the stream by then.
  void* (*allocate)(const CudaProvider*, std::size_t bytes) = nullptr;
  void (*free)(const CudaProvider*, void* memory) = nullptr;
  /// Copies by that stream, from and to memory of the device or of the host, without waiting. 0 or
  /// an error of CUDA's driver.
  int (*copy)(const CudaProvider*, void* to, const void* from, std::size_t bytes) = nullptr;
  /// Waits for all work that is on that stream by now. Since version 2.
  int (*synchronize)(const CudaProvider*) = nullptr;
  /// Why this thread was last given no memory; valid until the next call. Since version 3.
  const char* (*problem)(const CudaProvider*) = nullptr;
};

/// What to say where a kernel on the GPU got no memory: CUDA has none, or it is of no use any more.
inline std::string MemoryProblem(const CudaProvider* provider) {
  const bool can_tell = provider != nullptr && provider->version >= 3;
  const std::string problem = can_tell ? provider->problem(provider) : "";
  return problem.empty() ? "there is no memory left on the GPU" : problem;
}

inline constexpr ApiFunction<317, const OrtEpApi*()> GetEpApi{};
template <std::size_t kSlot, class... Arguments>
using EpCall = Function<OrtEpApi, kSlot, OrtStatus*(Arguments...)>;
inline constexpr EpCall<43, const OrtKernelInfo*, const OrtEp**> KernelInfo_GetEp{};

/// The provider that a node's kernel runs on; nullptr where it is another than ours.
inline const CudaProvider* FindCudaProvider(const Runtime& runtime, const OrtKernelInfo* info) {
  if (runtime.version < kOldestCudaRuntime) return nullptr;
  const OrtEp* found = nullptr;
  OrtStatus* const status = KernelInfo_GetEp(GetEpApi(runtime.api), info, &found);
  if (status != nullptr) {
    ReleaseStatus(runtime.api, status);
    return nullptr;
  }
  const auto* const provider = reinterpret_cast<const CudaProvider*>(found);
  using GetName = const char* (*)(const CudaProvider*);
  const auto name = reinterpret_cast<GetName>(provider->slots[0]);
  return std::strcmp(name(provider), kCudaProvider) == 0 ? provider : nullptr;
}

}  // namespace opgraft::ort
