// Decides which nodes of a model Opgraft runs, and reads them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/schema.h"
#include "model/aten_node.h"
#include "model/declared_values.h"
#include "model/operator_source.h"
#include "model/pyop_node.h"
#include "model/runtime_limits.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The prefix of a key in a model's metadata, followed by "domain::Name". The value is the Python
/// module that declares the operator. It takes precedence over a node's own entry (kNodeModuleKey).
inline constexpr std::string_view kModuleKey = "opgraft.module.";

/// The metadata key under which an export records the data that the model is valid for, one
/// condition per line.
inline constexpr std::string_view kHoldsWhereKey = "opgraft.holds_where";

/// The metadata key under which an export records where the model differs from its source, one
/// difference per line.
inline constexpr std::string_view kDiffersKey = "opgraft.differs";

/// The Python modules that declare operators, by "domain::Name". Views of the model's bytes.
using Modules = std::map<std::string, std::string_view, std::less<>>;

/// Reads the modules from the model's metadata.
Modules ReadModules(std::string_view model);

class OurNodes {
 public:
  /// The arguments must outlive this object.
  OurNodes(OperatorSource& source, const RuntimeLimits& limits, std::string_view runtime_version)
      : source_(source), limits_(limits), runtime_version_(runtime_version) {}

  /// Reads what `model` records about its operators. Call it before anything else.
  void Read(std::string_view model);

  /// Decides whether Opgraft runs a node; nothing else does. The bytes behind `head` must outlive
  /// this object.
  bool Has(const NodeHead& head) {
    if (head.IsPyOp() || IsAten(head)) return true;
    const Lookup& lookup = Find(head);
    return lookup.schema != nullptr || !lookup.status.ok();
  }

  /// Returns the schema of a pack's operator, which stays valid; nullptr for any other node.
  const Schema* FindNative(const NodeHead& head) {
    if (head.IsPyOp() || IsAten(head)) return nullptr;
    const Schema* const schema = Find(head).schema.get();
    return schema != nullptr && schema->native ? schema : nullptr;
  }

  /// Whether a node that Opgraft runs would be a different operator in this version of its domain.
  bool IsAnother(const NodeHead& head, std::int64_t version);

  /// Reads a node that Opgraft runs, that is not canonical yet and not a pack's. Checks that the
  /// runtime allows its types in custom operators.
  Status Read(std::string_view node, const NodeHead& head, const DeclaredValues& declared,
              PyOpNode* read);

 private:
  /// What is known about a node's operator: whether it is declared, and its schema.
  struct Lookup {
    Status status;  // an error if it is declared but not available
    std::shared_ptr<const Schema> schema;
  };

  const Lookup& Find(const NodeHead& head);
  Status CheckCarried(const pyop::Spec& spec) const;

  OperatorSource& source_;
  const RuntimeLimits& limits_;
  const std::string_view runtime_version_;
  Modules modules_;
  std::map<std::string_view, std::int64_t> versions_;  // the imported version of each domain
  std::map<std::pair<std::string_view, std::string_view>, Lookup> lookups_;  // by domain and name
};

}  // namespace opgraft::model
