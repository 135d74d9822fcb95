// One registration for each policy and runtime, which is never freed, because sessions refer to it.
#include "runtime/registration.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "adapter/calls.h"
#include "adapter/cuda_services.h"
#include "aten/cuda_part.h"
#include "aten/libtorch.h"
#include "core/platform.h"
#include "core/policy.h"
#include "model/aten_node.h"
#include "model/python_spec.h"
#include "runtime/aten_operator.h"
#include "runtime/installed_torch.h"
#include "runtime/pack_domains.h"
#include "runtime/pyop_operator.h"
#include "workers/options.h"

namespace opgraft::ort {
namespace {

/// The policy that options are registered under, kept in the options themselves.
constexpr char kRegisteredEntry[] = "opgraft.registered";

/// The path of the libtorch of this process's Python, which sets it.
constexpr char kLibtorchEntry[] = "opgraft.libtorch";

/// The provider's library, which a session with a GPU has loaded.
constexpr char kCudaLibrary[] = "libopgraft_cuda.so";

/// The domains whose operators are Opgraft's own.
struct OwnDomains {
  PyOpFamily family;
  std::unique_ptr<AtenOperator> aten;
  std::unique_ptr<AtenOperator> gpu_aten;  ///< nullptr if libtorch has no CUDA
  OrtCustomOpDomain* pyop_domain = nullptr;
  OrtCustomOpDomain* aten_domain = nullptr;
};

/// Whether ATen nodes can run on a GPU, that is, whether the libtorch that would be loaded for them
/// has a part for CUDA. It is only looked for, not loaded. A python command is only run for it if a
/// session may need it, that is, if the provider's library is loaded.
bool HasTorchForGpu(const Runtime& runtime) {
  if (runtime.version < kOldestCudaRuntime) return false;
  std::string path;
  if (!aten::FindLibtorch(aten::FindTorchWithoutAsking, &path).ok() &&
      !platform::PathOfLoaded(kCudaLibrary).empty()) {
    static const auto* const asked = [] {
      auto* const found = new std::string;
      if (!aten::FindLibtorch(aten::FindInstalledTorch, found).ok()) found->clear();
      return found;
    }();
    path = *asked;
  }
  return !aten::FindCudaPart(path).empty();
}

/// Finds or creates the domains for a policy; the caller must not hold a lock that the runtime
/// needs.
Status FindDomains(const Runtime& runtime, const std::string& key, Policy policy,
                   const std::shared_ptr<const workers::Options>& isolation,
                   const OwnDomains** domains) {
  static std::mutex mutex;
  // Never destroyed: sessions may outlive every static object.
  using Key = std::tuple<Runtime, std::string, bool>;
  static auto* const registrations = new std::map<Key, OwnDomains>;
  const bool has_gpu = HasTorchForGpu(runtime);
  const std::lock_guard lock(mutex);
  OwnDomains& registered = (*registrations)[{runtime, key, has_gpu}];
  *domains = &registered;
  if (registered.aten_domain != nullptr) return Status();
  const auto shared = std::make_shared<const Policy>(std::move(policy));
  OwnDomains made;
  made.family = MakePyOpFamily(runtime, shared, isolation);
  made.aten = std::make_unique<AtenOperator>(runtime, shared, /*is_for_gpu=*/false);
  if (has_gpu) made.gpu_aten = std::make_unique<AtenOperator>(runtime, shared, /*is_for_gpu=*/true);
  const OrtApi* const api = runtime.api;
  OrtStatus* status = CreateCustomOpDomain(api, pyop::kDomain, &made.pyop_domain);
  for (const std::unique_ptr<PyOp>& pyop : made.family) {
    if (status != nullptr) break;
    status =
        CustomOpDomain_Add(api, made.pyop_domain, reinterpret_cast<const OrtCustomOp*>(pyop.get()));
  }
  if (status == nullptr) status = CreateCustomOpDomain(api, model::kAtenDomain, &made.aten_domain);
  for (const AtenOperator* const aten : {made.aten.get(), made.gpu_aten.get()}) {
    if (status != nullptr || aten == nullptr) continue;
    status = CustomOpDomain_Add(api, made.aten_domain, reinterpret_cast<const OrtCustomOp*>(aten));
  }
  if (status != nullptr) return FromRuntime(api, status);
  registered = std::move(made);
  return Status();
}

}  // namespace

std::string AllowedByEnvironment() {
  const char* variable = std::getenv("OPGRAFT_ALLOW");
  return variable != nullptr ? variable : "";
}

Status Register(const Runtime& runtime, OrtSessionOptions* options, std::string_view allow) {
  const OrtApi* const api = runtime.api;
  const std::string environment = AllowedByEnvironment();
  bool is_isolated = false;
  std::string isolation_text;
  if (Status read = ReadEntry(api, options, kIsolationEntry, &is_isolated, &isolation_text);
      !read.ok()) {
    return read;
  }
  std::shared_ptr<workers::Options> isolation;
  if (is_isolated) {
    isolation = std::make_shared<workers::Options>();
    Status parsed = workers::Options::Parse(isolation_text, isolation.get());
    if (!parsed.ok()) return parsed;
  }
  const std::string key = std::string(allow) +
                          (environment.empty() ? "" : ";OPGRAFT_ALLOW=" + environment) +
                          (is_isolated ? ";isolation=" + isolation_text : "");
  bool is_registered = false;
  std::string registered;
  Status status = ReadEntry(api, options, kRegisteredEntry, &is_registered, &registered);
  if (!status.ok()) return status;
  if (is_registered && registered == key) return RegisterPacks(runtime, options);
  if (is_registered) {
    return Status::Error("these session options are registered with allow='" + registered +
                         "' already and cannot be registered again with allow='" + key +
                         "'. Fix: make new session options for another policy");
  }
  Policy policy;
  const OwnDomains* domains = nullptr;
  bool is_told = false;
  std::string libtorch;
  status = ReadEntry(api, options, kLibtorchEntry, &is_told, &libtorch);
  if (!status.ok()) return status;
  aten::TellInstalledTorch(libtorch);
  status = Policy::Parse(allow, environment, &policy);
  if (status.ok()) status = FindDomains(runtime, key, std::move(policy), isolation, &domains);
  if (status.ok()) {
    status = FromRuntime(api, AddSessionConfigEntry(api, options, kRegisteredEntry, key.c_str()));
  }
  if (status.ok()) {
    status = FromRuntime(api, AddCustomOpDomain(api, options, domains->pyop_domain));
  }
  if (status.ok()) {
    status = FromRuntime(api, AddCustomOpDomain(api, options, domains->aten_domain));
  }
  return status.ok() ? RegisterPacks(runtime, options) : status;
}

}  // namespace opgraft::ort

/// The function that ONNX Runtime calls in a custom operator library; the options may hold a
/// policy.
extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) {
  opgraft::ort::Runtime runtime;
  const opgraft::Status found = opgraft::ort::Runtime::Find(base, &runtime);
  const OrtApi* const api = runtime.api;
  if (!found.ok()) return opgraft::ort::ToRuntime(api, found);
  return opgraft::ort::Guarded(api, [&] {
    bool is_there = false;
    std::string allow;
    opgraft::Status status =
        opgraft::ort::ReadEntry(api, options, opgraft::ort::kAllowEntry, &is_there, &allow);
    return status.ok() ? opgraft::ort::Register(runtime, options, allow) : status;
  });
}
