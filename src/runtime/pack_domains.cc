// Domains are created once for each set of operators and never freed, because sessions refer to
// them.
#include "runtime/pack_domains.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "adapter/calls.h"
#include "adapter/pack_operator.h"
#include "core/packs.h"

namespace opgraft::ort {
namespace {

/// The prefix of the entries that hold, for each domain, the number of its operators when it was
/// registered with the options.
constexpr char kDomainEntry[] = "opgraft.domain.";

/// A domain with all operators that packs had in it when it was created. It does not change,
/// because another thread may be creating a session with it.
struct PackDomain {
  PackOperators operators;
  OrtCustomOpDomain* domain = nullptr;
};

using Schemas = std::vector<std::shared_ptr<const Schema>>;

Status MakeDomain(const Runtime& runtime, const std::string& name, const Schemas& schemas,
                  PackDomain* made) {
  for (const std::shared_ptr<const Schema>& schema : schemas) {
    AddKernels(runtime, *schema->native->declaration, schema->native->runtime_name,
               &made->operators);
  }
  OrtStatus* status = CreateCustomOpDomain(runtime.api, name.c_str(), &made->domain);
  for (const std::unique_ptr<PackOperator>& one : made->operators) {
    if (status != nullptr) break;
    status = CustomOpDomain_Add(runtime.api, made->domain, one->custom_op());
  }
  return FromRuntime(runtime.api, status);
}

Status FindDomain(const Runtime& runtime, const std::string& name, const Schemas& schemas,
                  OrtCustomOpDomain** domain) {
  using Key = std::pair<Runtime, std::pair<std::string, std::size_t>>;
  static std::mutex mutex;
  static auto* const domains = new std::map<Key, PackDomain>;
  const std::lock_guard lock(mutex);
  PackDomain& found = (*domains)[{runtime, {name, schemas.size()}}];
  if (found.domain == nullptr) {
    PackDomain made;
    if (Status status = MakeDomain(runtime, name, schemas, &made); !status.ok()) return status;
    found = std::move(made);
  }
  *domain = found.domain;
  return Status();
}

}  // namespace

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

Status RegisterPacks(const Runtime& runtime, OrtSessionOptions* options) {
  const OrtApi* const api = runtime.api;
  std::map<std::string, Schemas> by_domain;
  for (const std::shared_ptr<const Schema>& schema : Packs::OfThisProcess().operators()) {
    by_domain[schema->native->runtime_domain].push_back(schema);
  }
  for (const auto& [name, schemas] : by_domain) {
    const std::string entry = kDomainEntry + name;
    const std::string count = std::to_string(schemas.size());
    bool is_registered = false;
    std::string registered;
    Status status = ReadEntry(api, options, entry.c_str(), &is_registered, &registered);
    if (!status.ok()) return status;
    if (is_registered && registered == count) continue;
    if (is_registered) {
      return Status::Error("these session options were registered before the pack '" +
                           schemas.back()->native->pack + "' was loaded, which has operators in '" +
                           name + "' too. Fix: load packs first, or make new session options");
    }
    OrtCustomOpDomain* domain = nullptr;
    status = FindDomain(runtime, name, schemas, &domain);
    if (status.ok()) {
      status = FromRuntime(api, AddSessionConfigEntry(api, options, entry.c_str(), count.c_str()));
    }
    if (status.ok()) status = FromRuntime(api, AddCustomOpDomain(api, options, domain));
    if (!status.ok()) return status;
  }
  return Status();
}

}  // namespace opgraft::ort
