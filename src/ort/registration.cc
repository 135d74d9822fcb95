// One registration for each policy and runtime, kept for good: sessions hold on to it.
#include "ort/registration.h"

#include <climits>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/policy.h"
#include "ort/calls.h"
#include "ort/custom_op.h"
#include "ort/pyop_kernel.h"

namespace opgraft::ort {
namespace {

/// The policy that options are registered under, kept in the options themselves.
constexpr char kRegisteredEntry[] = "opgraft.registered";

/// The one operator that runs every canonical PyOp node: any number of inputs and outputs, of any
/// types. It infers no shapes, since the runtime would take an unknown rank for a scalar.
struct PyOp : CustomOpTable {
  PyOp(const Runtime& host, Policy allowed) : runtime(host), policy(std::move(allowed)) {
    GetName = [](const OrtCustomOp*) { return pyop::kOpType; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    GetInputType = GetOutputType = [](const OrtCustomOp*, std::size_t) { return 0; };
    GetInputTypeCount = GetOutputTypeCount = [](const OrtCustomOp*) -> std::size_t { return 1; };
    GetInputCharacteristic =
        GetOutputCharacteristic = [](const OrtCustomOp*, std::size_t) { return kVariadic; };
    GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return 0; };
    GetVariadicInputMinArity = GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicInputHomogeneity =
        GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return INT_MAX; };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info,
                        void** kernel) {
      return Guarded(api, [&] {
        std::unique_ptr<PyOpKernel> made;
        const auto* pyop = reinterpret_cast<const PyOp*>(self);
        Status status = PyOpKernel::Create(pyop->runtime, info, pyop->policy, &made);
        *kernel = made.release();
        return status;
      });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      const auto* pyop_kernel = static_cast<const PyOpKernel*>(kernel);
      return Guarded(pyop_kernel->api(), [&] { return pyop_kernel->Compute(context); });
    };
    KernelDestroy = [](void* kernel) { delete static_cast<PyOpKernel*>(kernel); };
  }

  const Runtime runtime;
  const Policy policy;
};

/// Finds or makes the domain for a policy; the caller holds no lock that the runtime needs.
Status FindDomain(const Runtime& runtime, const std::string& key, Policy policy,
                  OrtCustomOpDomain** domain) {
  struct Registration {
    std::unique_ptr<PyOp> pyop;
    OrtCustomOpDomain* domain = nullptr;
  };
  static std::mutex mutex;
  // Never destroyed: sessions may outlive every static object.
  static auto* const registrations = new std::map<std::pair<Runtime, std::string>, Registration>;
  const std::lock_guard lock(mutex);
  Registration& registration = (*registrations)[{runtime, key}];
  if (registration.domain == nullptr) {
    auto pyop = std::make_unique<PyOp>(runtime, std::move(policy));
    OrtCustomOpDomain* made = nullptr;
    const OrtApi* const api = runtime.api;
    OrtStatus* status = CreateCustomOpDomain(api, pyop::kDomain, &made);
    if (status == nullptr) {
      status = CustomOpDomain_Add(api, made, reinterpret_cast<const OrtCustomOp*>(pyop.get()));
    }
    if (status != nullptr) return FromRuntime(api, status);
    registration = {std::move(pyop), made};
  }
  *domain = registration.domain;
  return Status();
}

Status ReadEntry(const OrtApi* api, const OrtSessionOptions* options, const char* name,
                 bool* is_there, std::string* value) {
  int found = 0;
  Status status = FromRuntime(api, HasSessionConfigEntry(api, options, name, &found));
  *is_there = found != 0;
  if (!status.ok() || !*is_there) return status;
  const auto get = [&](char* out, std::size_t* size) {
    return GetSessionConfigEntry(api, options, name, out, size);
  };
  return ReadText(api, get, value);
}

}  // namespace

Status Register(const Runtime& runtime, OrtSessionOptions* options, std::string_view allow) {
  const OrtApi* const api = runtime.api;
  const char* variable = std::getenv("OPGRAFT_ALLOW");
  const std::string environment = variable != nullptr ? variable : "";
  const std::string key =
      std::string(allow) + (environment.empty() ? "" : ";OPGRAFT_ALLOW=" + environment);
  bool is_registered = false;
  std::string registered;
  Status status = ReadEntry(api, options, kRegisteredEntry, &is_registered, &registered);
  if (!status.ok()) return status;
  if (is_registered && registered == key) return Status();
  if (is_registered) {
    return Status::Error("these session options are registered with allow='" + registered +
                         "' already and cannot be registered again with allow='" + key +
                         "'; make new session options for another policy");
  }
  Policy policy;
  OrtCustomOpDomain* domain = nullptr;
  status = Policy::Parse(allow, environment, &policy);
  if (status.ok()) status = FindDomain(runtime, key, std::move(policy), &domain);
  if (status.ok()) {
    status = FromRuntime(api, AddSessionConfigEntry(api, options, kRegisteredEntry, key.c_str()));
  }
  return status.ok() ? FromRuntime(api, AddCustomOpDomain(api, options, domain)) : status;
}

}  // namespace opgraft::ort

/// What ONNX Runtime calls in a custom operator library, with a policy in the options or with none.
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
