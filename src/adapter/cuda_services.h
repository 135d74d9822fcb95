// The services of the execution provider OpgraftCUDA for the kernels that run on it.
//
// The provider is a library of its own, libopgraft_cuda.so. A kernel, of libopgraft or of any pack,
// finds it through the OrtEp of its node: the struct below has the layout of an OrtEp at its start.
// Packs built against older versions read this struct, so that it may only grow at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "adapter/calls.h"
#include "adapter/runtime.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

struct OrtEp;
struct OrtEpApi;

namespace opgraft::ort {

/// The provider's name, and the type of its kernels.
inline constexpr char kCudaProvider[] = "OpgraftCUDA";

/// The provider of ONNX Runtime's CUDA build. Both have the same memory and streams of their own,
/// which nothing orders: a node would read what a node of the other has not written yet. So no
/// session has nodes on both.
inline constexpr char kRuntimesCudaProvider[] = "CUDAExecutionProvider";
inline constexpr char kTwoCudaProviders[] =
    "OpgraftCUDA and CUDAExecutionProvider cannot share a session: their work is on different "
    "streams, so that results could be wrong. Fix: name one of the two, OpgraftCUDA for operators "
    "of Opgraft on the GPU, or CUDAExecutionProvider for those of ONNX Runtime and of packs";

/// The first version of ONNX Runtime that supports it.
inline constexpr RuntimeVersion kOldestCudaRuntime{1, 24, 0};

/// The number of functions reserved for OrtEp, including those of future versions of the runtime.
inline constexpr std::size_t kEpSlots = 63;

struct CudaProvider {
  std::uint32_t ort_version = 0;
  void* slots[kEpSlots] = {};

  /// The version of the members from here on; raised when members are added.
  std::uint32_t version = 3;
  int device = 0;
  /// The stream (CUstream) of the run that this thread is in.
  void* (*stream)(const CudaProvider*) = nullptr;
  /// Allocates device memory for work that is submitted to that stream from now on; nullptr if
  /// there is none. Freed memory is reused only after the work that is on the stream by then.
  void* (*allocate)(const CudaProvider*, std::size_t bytes) = nullptr;
  void (*free)(const CudaProvider*, void* memory) = nullptr;
  /// Copies on that stream, between device and host memory in any direction, without waiting.
  /// Returns 0 or an error of the CUDA driver.
  int (*copy)(const CudaProvider*, void* to, const void* from, std::size_t bytes) = nullptr;
  /// Waits for all work submitted to that stream so far. Since version 2.
  int (*synchronize)(const CudaProvider*) = nullptr;
  /// Returns why the last allocation of this thread failed; valid until the next call. Since
  /// version 3.
  const char* (*problem)(const CudaProvider*) = nullptr;
};

/// Returns the message for a kernel on the GPU that got no memory: there is none left, or CUDA is
/// no longer usable.
inline std::string MemoryProblem(const CudaProvider* provider) {
  const bool can_tell = provider != nullptr && provider->version >= 3;
  const std::string problem = can_tell ? provider->problem(provider) : "";
  return problem.empty() ? "there is no memory left on the GPU" : problem;
}

inline constexpr ApiFunction<317, const OrtEpApi*()> GetEpApi{};
template <std::size_t kSlot, class... Arguments>
using EpCall = Function<OrtEpApi, kSlot, OrtStatus*(Arguments...)>;
inline constexpr EpCall<43, const OrtKernelInfo*, const OrtEp**> KernelInfo_GetEp{};

/// Returns the provider that a node's kernel runs on; nullptr if it is not OpgraftCUDA.
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
