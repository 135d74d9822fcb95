// The provider's library lies beside this one. It is only registered with the runtime when it is
// first needed, because that takes a tenth of a second.
#include "runtime/cuda_session.h"

#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "adapter/calls.h"
#include "adapter/cuda_services.h"
#include "adapter/runtime.h"
#include "core/platform.h"
#include "runtime/pack_domains.h"

struct OrtEpAssignedSubgraph;

namespace opgraft::ort {
namespace {

/// In options with OpgraftCUDA: the number of the GPU. Python sets it too.
constexpr char kDeviceEntry[] = "opgraft.cuda.device";
/// Has the runtime remember which provider each node got.
constexpr char kRecordEntry[] = "session.record_ep_graph_assignment_info";

// Since 1.24.
constexpr ApiCall<407, const OrtSession*, const OrtEpAssignedSubgraph* const**, std::size_t*>
    Session_GetEpGraphAssignmentInfo{};
constexpr ApiCall<408, const OrtEpAssignedSubgraph*, const char**> EpAssignedSubgraph_GetEpName{};

Status FindGpus(const OrtApi* api, const OrtEnv* environment,
                std::vector<const OrtEpDevice*>* gpus) {
  const OrtEpDevice* const* devices = nullptr;
  std::size_t count = 0;
  Status status = FromRuntime(api, GetEpDevices(api, environment, &devices, &count));
  for (std::size_t i = 0; status.ok() && i < count; ++i) {
    if (std::strcmp(EpDevice_EpName(api, devices[i]), kCudaProvider) == 0) {
      gpus->push_back(devices[i]);
    }
  }
  return status;
}

/// Registers the provider's library, unless it reports that it cannot be used here.
Status RegisterLibrary(const OrtApi* api, OrtEnv* environment) {
  static const char anchor = 0;
  const std::filesystem::path own = platform::PathOf(&anchor);
  const std::string path = (own.parent_path() / "libopgraft_cuda.so").string();
  void* library = nullptr;
  Status status = platform::LoadLibrary(path, /*is_global=*/false, &library);
  if (!status.ok()) {
    return Status::Unavailable("OpgraftCUDA is not available: " + status.message() +
                               ". Fix: deploy it beside libopgraft.so (" + own.string() +
                               "); it comes with Opgraft");
  }
  void* const symbol = platform::FindSymbol(library, "opgraft_cuda_problem");
  if (symbol == nullptr) {
    return Status::Unavailable(path + " belongs to another version of Opgraft");
  }
  const std::string problem = reinterpret_cast<const char* (*)()>(symbol)();
  if (!problem.empty()) return Status::Unavailable("OpgraftCUDA is not available: " + problem);
  return FromRuntime(
      api, RegisterExecutionProviderLibrary(api, environment, kCudaProvider, path.c_str()));
}

}  // namespace

Status UseCuda(const OrtApiBase* base, OrtEnv* environment, OrtSessionOptions* options, int gpu) {
  Runtime runtime;
  if (Status status = Runtime::Find(base, &runtime); !status.ok()) return status;
  if (runtime.version < kOldestCudaRuntime) {
    return Status::Unavailable("OpgraftCUDA needs ONNX Runtime 1.24 or newer, this one is " +
                               std::string(GetVersionString(base)));
  }
  const OrtApi* const api = runtime.api;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::vector<const OrtEpDevice*> gpus;
  Status status = FindGpus(api, environment, &gpus);
  if (status.ok() && gpus.empty()) {
    status = RegisterLibrary(api, environment);
    if (status.ok()) status = FindGpus(api, environment, &gpus);
  }
  if (!status.ok()) return status;
  const std::string wanted = std::to_string(gpu);
  for (const OrtEpDevice* const one : gpus) {
    const char* const number = GetKeyValue(api, EpDevice_EpMetadata(api, one), "cuda_device_id");
    if (number == nullptr || number != wanted) continue;
    status = FromRuntime(api, SessionOptionsAppendExecutionProvider_V2(
                                  api, options, environment, &one, 1, nullptr, nullptr, 0));
    if (!status.ok()) return status;
    status = FromRuntime(api, AddSessionConfigEntry(api, options, kRecordEntry, "1"));
    if (!status.ok()) return status;
    return FromRuntime(api, AddSessionConfigEntry(api, options, kDeviceEntry, wanted.c_str()));
  }
  return Status::Unavailable("there is no GPU " + wanted + ": ONNX Runtime has " +
                             std::to_string(gpus.size()) +
                             " of them (at most 8; CUDA_VISIBLE_DEVICES selects them)");
}

Status CheckOneCudaProvider(const Runtime& runtime, const OrtSessionOptions* options,
                            const OrtSession* session) {
  const OrtApi* const api = runtime.api;
  bool is_used = false;
  std::string gpu;
  Status status = ReadEntry(api, options, kDeviceEntry, &is_used, &gpu);
  if (!status.ok() || !is_used) return status;
  const OrtEpAssignedSubgraph* const* parts = nullptr;
  std::size_t count = 0;
  status = FromRuntime(api, Session_GetEpGraphAssignmentInfo(api, session, &parts, &count));
  bool is_shared = false;
  for (std::size_t i = 0; status.ok() && i < count; ++i) {
    const char* provider = "";
    status = FromRuntime(api, EpAssignedSubgraph_GetEpName(api, parts[i], &provider));
    is_shared |= std::strcmp(provider, kRuntimesCudaProvider) == 0;
  }
  if (!status.ok()) return status;
  return is_shared ? Status::Error(kTwoCudaProviders) : Status();
}

}  // namespace opgraft::ort
