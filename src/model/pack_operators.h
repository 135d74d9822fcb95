// A source of operators for preparing: loaded packs first, then operators declared elsewhere, then
// the shipped packs that are not loaded.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/packs.h"
#include "core/schema.h"
#include "model/operator_source.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The operators of ONNX Runtime's own domains for which a session prefers a pack's kernels.
class Preference {
 public:
  /// Parses a list of entries separated by commas: "domain::Name", or a domain for all operators in
  /// it. Returns an Error for an entry that no loaded pack has.
  static Status Parse(std::string_view list, const Packs& packs, Preference* preference);

  bool Prefers(std::string_view domain, std::string_view full_name) const;

 private:
  std::vector<std::string> entries_;
};

/// The arguments of the constructor must outlive this object.
class PackOperators final : public OperatorSource {
 public:
  PackOperators(const Packs& packs, const Preference& preference, OperatorSource& others)
      : packs_(packs), preference_(preference), others_(others) {}

  Status Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) override;

 private:
  /// Finds an operator that no loaded pack has: in the other source, else in the shipped packs.
  Status FindElsewhere(const OperatorQuery& query, std::shared_ptr<const Schema>* schema);

  const Packs& packs_;
  const Preference& preference_;
  OperatorSource& others_;
};

}  // namespace opgraft::model
