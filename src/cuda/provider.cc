// The provider takes every node that has a kernel for it. Packs, Python operators and ATen nodes
// register their kernels as custom operators of the session.
#include "cuda/provider.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "adapter/calls.h"
#include "cuda/run.h"

namespace opgraft::cuda {
namespace {

template <class Function>
void* Erased(Function* function) {
  return reinterpret_cast<void*>(function);
}

/// Whether ONNX Runtime's own provider for CUDA has taken the node already.
Status FindIsTaken(const OrtApi* api, const OrtNode* node, bool* is_taken) {
  const char* provider = nullptr;
  Status status = ort::FromRuntime(api, Node_GetEpName(api, node, &provider));
  if (!status.ok() || provider == nullptr) return status;
  *is_taken |= std::strcmp(provider, ort::kRuntimesCudaProvider) == 0;
  return status;
}

}  // namespace

Provider::Provider(const ort::Runtime& runtime, Gpu& gpu, const OrtKernelRegistry* registry)
    : runtime_(runtime), gpu_(gpu), registry_(registry) {
  // Sync was added in version 25; the rest of the table is that of kProviderVersion.
  constexpr std::uint32_t kVersionWithSync = 25;
  ort_version = std::min(static_cast<std::uint32_t>(runtime.version.minor), kVersionWithSync);
  slots[kGetName] = Erased(+[](const OrtEp*) { return ort::kCudaProvider; });
  slots[kGetCapability] =
      Erased(+[](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
        return ort::Guarded(Self(self).runtime_.api,
                            [&] { return Self(self).TakeNodes(graph, support); });
      });
  slots[kOnRunStart] = Erased(+[](OrtEp* self, const OrtRunOptions* options) {
    const OrtApi* const api = Self(self).runtime_.api;
    return ort::Guarded(api, [&] {
      return BeginRun(Self(self).gpu_, GetRunConfigEntry(api, options, kStreamEntry));
    });
  });
  slots[kOnRunEnd] = Erased(+[](OrtEp* self, const OrtRunOptions*, bool must_wait) {
    return ort::Guarded(Self(self).runtime_.api, [&] { return Self(self).EndRun(must_wait); });
  });
  slots[kGetKernelRegistry] = Erased(+[](OrtEp* self, const OrtKernelRegistry** kernels) {
    *kernels = Self(self).registry_;
    return static_cast<OrtStatus*>(nullptr);
  });
  slots[kIsConcurrentRunSupported] = Erased(+[](OrtEp*, bool* is_supported) {
    *is_supported = true;
    return static_cast<OrtStatus*>(nullptr);
  });
  slots[kSync] = Erased(+[](OrtEp* self) {
    return ort::Guarded(Self(self).runtime_.api, [&] { return Self(self).gpu_.SynchronizeAll(); });
  });
  device = gpu.index();
  stream = [](const ort::CudaProvider* self) -> void* { return Self(self).CurrentStream().stream; };
  allocate = [](const ort::CudaProvider* self, std::size_t bytes) {
    return Self(self).gpu_.Allocate(bytes, Self(self).CurrentStream());
  };
  free = [](const ort::CudaProvider* self, void* memory) { cuda::Free(Self(self).gpu_, memory); };
  problem = [](const ort::CudaProvider*) {
    thread_local std::string text;
    text = Gpu::LastProblem().message();
    return text.c_str();
  };
  copy = [](const ort::CudaProvider* self, void* to, const void* from, std::size_t bytes) {
    const Provider& one = Self(self);
    const auto address = [](const void* memory) { return reinterpret_cast<Address>(memory); };
    return one.gpu_.driver().MemcpyAsync(address(to), address(from), bytes,
                                         one.CurrentStream().stream);
  };
  synchronize = [](const ort::CudaProvider* self) {
    const Provider& one = Self(self);
    return one.gpu_.driver().StreamSynchronize(one.CurrentStream().stream);
  };
}

KnownStream Provider::CurrentStream() const {
  if (const KnownStream* const run = FindRun(gpu_)) return *run;
  has_side_work_.store(true, std::memory_order_relaxed);
  static_cast<void>(gpu_.Enter());  // never left: a thread of the runtime uses no other GPU
  return {};
}

Status Provider::EndRun(bool must_wait) {
  bool is_named = false;
  Status status = cuda::EndRun(gpu_, must_wait, &is_named);
  if (!has_side_work_.load(std::memory_order_relaxed)) return status;
  Status waited = gpu_.Synchronize(nullptr);
  if (is_named) {
    return Status::Error(
        "OpgraftCUDA: ONNX Runtime has run nodes in parallel, in threads that do not know the "
        "stream that this run names. Fix: use ORT_SEQUENTIAL, or name no stream");
  }
  return status.ok() ? waited : status;
}

Status Provider::TakeNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support) const {
  const OrtApi* const api = runtime_.api;
  const OrtEpApi* const provider_api = ort::GetEpApi(api);
  std::size_t count = 0;
  OrtStatus* status = Graph_GetNumNodes(api, graph, &count);
  std::vector<const OrtNode*> nodes(count);
  if (status == nullptr) status = Graph_GetNodes(api, graph, nodes.data(), count);
  // Beside that provider nothing runs here. The runtime would only log an error.
  bool is_taken = false;
  for (std::size_t i = 0; status == nullptr && i < count; ++i) {
    if (Status found = FindIsTaken(api, nodes[i], &is_taken); !found.ok()) return found;
  }
  if (is_taken) return Status();
  for (std::size_t i = 0; status == nullptr && i < count; ++i) {
    const OrtKernelDef* found = nullptr;
    status = EpGraphSupportInfo_LookUpKernel(provider_api, support, nodes[i], &found);
    if (status == nullptr && found != nullptr) {
      status = EpGraphSupportInfo_AddSingleNode(provider_api, support, nodes[i]);
    }
  }
  return ort::FromRuntime(api, status);
}

}  // namespace opgraft::cuda
