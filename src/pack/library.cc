// Makes a pack an ordinary custom operator library: the function that ONNX Runtime calls to
// register it.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "adapter/calls.h"
#include "adapter/pack_operator.h"
#include "adapter/runtime.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::pack {
namespace {

struct Domain {
  std::string name;
  ort::PackOperators operators;
  OrtCustomOpDomain* domain = nullptr;
};

/// A runtime knows only one version of a custom operator: we register the newest. For models that
/// need an older version, the runtime reports that the operator is missing.
bool IsNewest(const OpgraftPack& pack, const OpgraftOperator& one) {
  for (std::size_t i = 0; i < pack.operator_count; ++i) {
    const OpgraftOperator& other = *pack.operators[i];
    if (std::strcmp(other.domain, one.domain) == 0 && std::strcmp(other.name, one.name) == 0 &&
        other.since_version > one.since_version) {
      return false;
    }
  }
  return true;
}

Status MakeDomains(const ort::Runtime& runtime, std::vector<Domain>* domains) {
  std::vector<Domain> made;  // returned as a whole or not at all
  const OpgraftPack& pack = *opgraft_pack();
  if (pack.problem != nullptr) return Status::Error(pack.problem);
  std::map<std::string, Domain> by_name;
  for (std::size_t i = 0; i < pack.operator_count; ++i) {
    const OpgraftOperator& one = *pack.operators[i];
    if (!IsNewest(pack, one)) continue;
    ort::AddKernels(runtime, one, one.name, &by_name[one.domain].operators);
  }
  for (auto& [name, domain] : by_name) {
    domain.name = name;
    OrtStatus* status = ort::CreateCustomOpDomain(runtime.api, name.c_str(), &domain.domain);
    for (const std::unique_ptr<ort::PackOperator>& one : domain.operators) {
      if (status != nullptr) break;
      status = ort::CustomOpDomain_Add(runtime.api, domain.domain, one->custom_op());
    }
    if (status != nullptr) return ort::FromRuntime(runtime.api, status);
    made.push_back(std::move(domain));
  }
  *domains = std::move(made);
  return Status();
}

/// Returns the domains for one runtime. They are created once and never freed, because sessions
/// refer to them.
Status FindDomains(const ort::Runtime& runtime, const std::vector<Domain>** domains) {
  static std::mutex mutex;
  static auto* const made = new std::map<ort::Runtime, std::vector<Domain>>;
  const std::lock_guard lock(mutex);
  auto found = made->find(runtime);
  if (found == made->end()) {
    std::vector<Domain> fresh;
    if (Status status = MakeDomains(runtime, &fresh); !status.ok()) return status;
    found = made->emplace(runtime, std::move(fresh)).first;
  }
  *domains = &found->second;
  return Status();
}

Status Register(const OrtApiBase* base, OrtSessionOptions* options, ort::Runtime* runtime) {
  if (Status status = ort::Runtime::Find(base, runtime); !status.ok()) return status;
  const std::vector<Domain>* domains = nullptr;
  Status status = FindDomains(*runtime, &domains);
  if (!status.ok()) return status;
  for (const Domain& domain : *domains) {
    if (!status.ok()) break;
    status = ort::FromRuntime(runtime->api,
                              ort::AddCustomOpDomain(runtime->api, options, domain.domain));
  }
  return status;
}

}  // namespace
}  // namespace opgraft::pack

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) {
  // Version 1 of the API has the functions that are needed to return an error.
  const OrtApi* const api = opgraft::ort::GetApi(base, 1);
  return opgraft::ort::Guarded(api, [&] {
    opgraft::ort::Runtime runtime;
    return opgraft::pack::Register(base, options, &runtime);
  });
}
