// The operators of packs, before those that others have declared and those of packs that
// come with Opgraft and are not loaded, as a source for preparing.
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

/// The operators of ONNX Runtime's own domains for which a session wants a pack's kernels.
class Preference {
 public:
  /// Reads a list of entries separated by commas: "domain::Name", or a domain for all of it. An
  /// Error for one that no pack has loaded operators of.
  static Status Parse(std::string_view list, const Packs& packs, Preference* preference);

  bool Prefers(std::string_view domain, std::string_view full_name) const;

 private:
  std::vector<std::string> entries_;
};

/// What is given must outlive it.
class PackOperators final : public OperatorSource {
 public:
  PackOperators(const Packs& packs, const Preference& preference, OperatorSource& others)
      : packs_(packs), preference_(preference), others_(others) {}

  Status Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) override;

 private:
  /// What no pack has that is loaded: what others have, else what packs have that come with
  /// Opgraft.
  Status FindElsewhere(const OperatorQuery& query, std::shared_ptr<const Schema>* schema);

  const Packs& packs_;
  const Preference& preference_;
  OperatorSource& others_;
};

}  // namespace opgraft::model
