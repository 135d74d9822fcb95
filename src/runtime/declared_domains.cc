// Domains are created once for each set of operators and never freed, because sessions refer to
// them.
#include "runtime/declared_domains.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "adapter/calls.h"
#include "adapter/runtime.h"
#include "core/domains.h"
#include "core/policy.h"
#include "model/onnx_tags.h"
#include "model/runtime_limits.h"
#include "runtime/declared_operator.h"
#include "runtime/pack_domains.h"
#include "runtime/registration.h"

namespace opgraft::ort {
namespace {

/// The operators that the options are registered with, kept in the options themselves.
constexpr char kDeclaredEntry[] = "opgraft.declared";

struct DeclaredDomain {
  std::vector<std::unique_ptr<DeclaredOperator>> operators;
  OrtCustomOpDomain* domain = nullptr;
};

/// Whether a plain session can run nodes of the operator as they stand.
bool RunsUnprepared(const Runtime& runtime, const Schema& schema) {
  // A type that the runtime does not have would make it refuse all operators.
  const std::int64_t last = model::LimitsOf(runtime.version).last_type;
  const auto is_had = [&](const TypeVariable& one) {
    return one.allowed.size() != 1 || one.allowed.front() <= last;
  };
  const auto is_required = [](const Parameter& one) {
    return one.occurrence == Occurrence::kRequired;
  };
  const auto is_fixed = [&](const Parameter& one) {
    return is_required(one) && schema.types[one.type].allowed.size() == 1;
  };
  const auto is_readable = [](const AttributeParameter& one) {
    return one.type != model::tag::kTensor;
  };
  return !schema.on_gpu && !IsRuntimeDomain(schema.domain) &&
         std::ranges::all_of(schema.types, is_had) &&
         std::ranges::all_of(schema.inputs, is_required) &&
         std::ranges::all_of(schema.outputs, is_fixed) &&
         std::ranges::all_of(schema.attributes, is_readable);
}

Status MakeDeclaredDomain(const Runtime& runtime, const DeclaredSchemas& schemas,
                          DeclaredDomain* made) {
  Policy policy;
  Status parsed = Policy::Parse("", AllowedByEnvironment(), &policy);
  if (!parsed.ok()) return parsed;
  const auto shared = std::make_shared<const Policy>(std::move(policy));
  OrtStatus* status =
      CreateCustomOpDomain(runtime.api, schemas.front()->domain.c_str(), &made->domain);
  for (const std::shared_ptr<const Schema>& schema : schemas) {
    if (status != nullptr) break;
    made->operators.push_back(std::make_unique<DeclaredOperator>(runtime, shared, schema));
    status = CustomOpDomain_Add(runtime.api, made->domain,
                                reinterpret_cast<const OrtCustomOp*>(made->operators.back().get()));
  }
  return FromRuntime(runtime.api, status);
}

Status FindDeclaredDomain(const Runtime& runtime, const DeclaredSchemas& schemas,
                          OrtCustomOpDomain** domain) {
  static std::mutex mutex;
  static auto* const domains = new std::map<std::pair<Runtime, DeclaredSchemas>, DeclaredDomain>;
  const std::lock_guard lock(mutex);
  DeclaredDomain& found = (*domains)[{runtime, schemas}];
  if (found.domain == nullptr) {
    DeclaredDomain made;
    Status status = MakeDeclaredDomain(runtime, schemas, &made);
    if (!status.ok()) return status;
    found = std::move(made);
  }
  *domain = found.domain;
  return Status();
}

Status AddDeclaredDomains(const Runtime& runtime, OrtSessionOptions* options,
                          const DeclaredSchemas& schemas) {
  const OrtApi* const api = runtime.api;
  bool is_isolated = false;
  std::string isolation;
  Status entry = ReadEntry(api, options, kIsolationEntry, &is_isolated, &isolation);
  if (!entry.ok()) return entry;
  if (is_isolated) {
    return Status::Unavailable(
        "the operators of opgraft.extensions run in this process, but these session options ask "
        "for isolation. Fix: declare them with @opgraft.op, or make options without isolation");
  }
  std::map<std::string, DeclaredSchemas> by_domain;
  std::string names;
  for (const std::shared_ptr<const Schema>& schema : schemas) {
    if (!RunsUnprepared(runtime, *schema)) continue;
    by_domain[schema->domain].push_back(schema);
    names += (names.empty() ? "" : ",") + schema->FullName();
  }
  bool is_registered = false;
  std::string registered;
  Status status = ReadEntry(api, options, kDeclaredEntry, &is_registered, &registered);
  if (!status.ok() || (is_registered && registered == names)) return status;
  if (is_registered) {
    return Status::Error(
        "these session options were registered before other operators were declared. Fix: declare "
        "operators first, or make new session options");
  }
  status = FromRuntime(api, AddSessionConfigEntry(api, options, kDeclaredEntry, names.c_str()));
  for (const auto& [name, of_domain] : by_domain) {
    OrtCustomOpDomain* domain = nullptr;
    if (status.ok()) status = FindDeclaredDomain(runtime, of_domain, &domain);
    if (status.ok()) status = FromRuntime(api, AddCustomOpDomain(api, options, domain));
  }
  return status;
}

}  // namespace

OrtStatus* RegisterDeclared(const OrtApiBase* base, OrtSessionOptions* options,
                            DeclaredSchemas (*list)()) {
  Runtime runtime;
  const Status found = Runtime::Find(base, &runtime);
  if (!found.ok()) return ToRuntime(runtime.api, found);
  return Guarded(runtime.api, [&] { return AddDeclaredDomains(runtime, options, list()); });
}

}  // namespace opgraft::ort
