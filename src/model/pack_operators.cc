// Decides the order in which sources are asked, and what is refused.
#include "model/pack_operators.h"

#include <algorithm>
#include <utility>

#include "core/domains.h"
#include "core/shipped_packs.h"
#include "model/onnx_tags.h"
#include "model/runtime_operators.h"

namespace opgraft::model {

namespace {

/// Returns an entry with the domain that operators have in models, where ONNX's own is "".
std::string ToName(std::string_view entry) {
  const std::size_t colons = entry.find("::");
  if (colons == std::string_view::npos) return std::string(Normalized(entry));
  return std::string(Normalized(entry.substr(0, colons))) + std::string(entry.substr(colons));
}

}  // namespace

Status Preference::Parse(std::string_view list, const Packs& packs, Preference* preference) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (entry.empty()) continue;
    std::string name = ToName(entry);
    bool is_known = false;
    for (const std::shared_ptr<const Schema>& schema : packs.operators()) {
      is_known |= schema->FullName() == name || schema->domain == name;
    }
    if (!is_known) {
      return Status::Error("prefer: no loaded pack has '" + std::string(entry) +
                           "'; expected \"domain::Name\", or a domain for all operators that packs "
                           "have in it. Fix: load the pack with opgraft.load(path)");
    }
    preference->entries_.push_back(std::move(name));
  }
  return Status();
}

bool Preference::Prefers(std::string_view domain, std::string_view full_name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const std::string& entry) {
    return entry == domain || entry == full_name;
  });
}

Status PackOperators::FindElsewhere(const OperatorQuery& query,
                                    std::shared_ptr<const Schema>* schema) {
  Status status = others_.Find(query, schema);
  if (!status.ok() || *schema != nullptr) return status;
  // An operator in one of the runtime's domains is the runtime's, unless a session prefers ours.
  const std::string_view domain = query.full_name.substr(0, query.full_name.find("::"));
  if (IsRuntimeDomain(domain)) return Status();
  return ShippedPacks().Find(query.who, query.full_name, query.version, schema);
}

Status PackOperators::Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) {
  std::shared_ptr<const Schema> found;
  Status status = packs_.Find(query.who, query.full_name, 0, &found);
  if (!status.ok()) return status;
  if (found == nullptr) return FindElsewhere(query, schema);
  // A node that was already prepared has a name that only an operator of a pack can have.
  const bool may_be_runtimes = found->FullName() == query.full_name &&
                               IsRuntimeDomain(found->domain) &&
                               RuntimeMayHave(found->domain, found->name);
  if (may_be_runtimes && !preference_.Prefers(found->domain, query.full_name)) {
    return others_.Find(query, schema);
  }
  // Checked only now: a version that no pack has does not matter if the runtime runs the operator.
  found = nullptr;
  status = packs_.Find(query.who, query.full_name, query.version, &found);
  if (!status.ok()) return status;
  std::shared_ptr<const Schema> other;
  OperatorQuery of_this_process = query;
  of_this_process.module = {};  // the module that the model names must not be imported
  status = others_.Find(of_this_process, &other);
  if (!status.ok()) return status;
  if (other != nullptr) {
    return Status::Error(std::string(query.who) + " is declared by the pack '" +
                         found->native->pack + "' and by the Python module '" + other->module +
                         "'; only one of them can have it");
  }
  *schema = std::move(found);
  return Status();
}

}  // namespace opgraft::model
