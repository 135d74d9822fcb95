// Compares versions; opset_changes.cc compares nodes.
#include "model/lowering.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/fields.h"
#include "model/function_bodies.h"
#include "model/onnx_tags.h"
#include "model/opset_changes.h"
#include "model/runtime_operators.h"

namespace opgraft::model {

std::string DifferenceIn(const RuntimeLimits& limits, std::string_view node, const NodeHead& head,
                         std::int64_t version) {
  const std::string_view domain = Normalized(head.domain);
  const std::optional<std::int64_t> limit = OpsetLimit(limits, domain);
  if (!limit || version <= *limit || domain == kContribDomain) return "";
  return domain.empty() ? Difference(node, head.op_type, *limit, version)
                        : std::string(head.op_type);
}

Status IrIsUnknown(std::string_view origin, std::int64_t ir_version) {
  return Status::Model(std::string(origin) + " has ONNX's IR version " +
                       std::to_string(ir_version) + ", but the newest that this Opgraft knows is " +
                       std::to_string(kNewestKnownIr) +
                       ". Fix: export the model for an older version of onnx, or install a newer "
                       "Opgraft");
}

void Lowering::Read(std::string_view model) {
  const auto note = [this](const Field& field) {
    OpsetImport import = ReadOpsetImport(field.Bytes());
    const std::int64_t version = import.version;
    const auto [found, is_new] =
        imported_.try_emplace(Normalized(import.domain), Range{version, version});
    found->second.lowest = std::min(found->second.lowest, version);
    found->second.highest = std::max(found->second.highest, version);
    if (!Lower(&import)) return;
    std::int64_t& highest = lowered_[Normalized(import.domain)];
    highest = std::max(highest, version);
  };
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() == tag::kOpsetImport) note(reader.field());
    if (reader.field().tag() != tag::kFunctions) continue;
    for (FieldReader function(reader.field().Bytes()); function.Next();) {
      if (function.field().tag() == tag::kFunctionOpsetImport) note(function.field());
    }
  }
}

bool Lowering::Lower(OpsetImport* import) const {
  const std::int64_t limit = OpsetLimit(limits_, import->domain).value_or(import->version);
  if (import->version <= limit) return false;
  import->version = limit;
  return true;
}

std::int64_t Lowering::VersionForBody(std::string_view node, const NodeHead& head) const {
  const std::string_view domain = Normalized(head.domain);
  const bool is_lacking = RuntimeLacks(node, head);
  const bool is_lowered = domain.empty() && lowered_.contains(domain);
  const auto versions = imported_.find(domain);
  if ((!is_lacking && !is_lowered) || versions == imported_.end()) return 0;
  const auto [lowest, highest] = versions->second;
  if (!HasBody(domain, head.op_type, highest)) return 0;
  if (!is_lacking && DifferenceIn(limits_, node, head, highest).empty()) return 0;
  // The model and its functions may import different versions, and then the node may mean either.
  const bool is_certain =
      lowest == highest ||
      (domain.empty() && Difference(node, head.op_type, lowest, highest).empty());
  return is_certain ? highest : 0;
}

void Lowering::NoteNode(std::string_view node, const NodeHead& head) {
  const auto lowered = lowered_.find(Normalized(head.domain));
  if (lowered == lowered_.end()) return;
  std::string difference = DifferenceIn(limits_, node, head, lowered->second);
  if (!difference.empty()) differences_[lowered->first].insert(std::move(difference));
}

Status Lowering::Check(std::string_view origin, std::string_view runtime_version,
                       std::int64_t* opset_limit) const {
  if (differences_.empty()) return Status();
  const auto& [domain, operators] = *differences_.begin();
  const bool is_known = domain.empty() && lowered_.at(domain) <= NewestKnownOpset();
  if (is_known) *opset_limit = limits_.opset;
  std::string names;
  for (const std::string& name : operators) names += (names.empty() ? "" : ", ") + name;
  const std::string opset = std::to_string(OpsetLimit(limits_, domain).value_or(0));
  return Status::Model(std::string(origin) + " has " +
                       (domain.empty() ? "ONNX" : std::string(domain)) + " opset " +
                       std::to_string(lowered_.at(domain)) + ", but ONNX Runtime " +
                       std::string(runtime_version) + " supports at most " + opset +
                       (is_known ? ", and these operators have changed in between: "
                                 : ", and this Opgraft does not know whether these operators are "
                                   "the same in both: ") +
                       names + ". Fix: export the model for opset " + opset +
                       (is_known ? "" : ", or install a newer Opgraft"));
}

}  // namespace opgraft::model
