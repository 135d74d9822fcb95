// Which nodes of a model Opgraft runs, and what they are.
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

/// A key among a model's metadata begins so, then comes "domain::Name"; its value is the Python
/// module that declares the operator. It goes before what a node says (kNodeModuleKey).
inline constexpr std::string_view kModuleKey = "opgraft.module.";

/// Where an export writes what data the model is right for, a condition in each line.
inline constexpr std::string_view kHoldsWhereKey = "opgraft.holds_where";

/// Where an export writes what the model gives otherwise than its source does, a line for each.
inline constexpr std::string_view kDiffersKey = "opgraft.differs";

/// By "domain::Name": the Python modules that declare operators. Views into the model's bytes.
using Modules = std::map<std::string, std::string_view, std::less<>>;

/// What the model's metadata says of them.
Modules ReadModules(std::string_view model);

class OurNodes {
 public:
  /// What is given must outlive this.
  OurNodes(OperatorSource& source, const RuntimeLimits& limits, std::string_view runtime_version)
      : source_(source), limits_(limits), runtime_version_(runtime_version) {}

  /// Reads what `model` says of its operators; before any node.
  void Read(std::string_view model);

  /// The one place that tells which nodes Opgraft runs. The bytes behind `head` must outlive this.
  bool Has(const NodeHead& head) {
    if (head.IsPyOp() || IsAten(head)) return true;
    const Lookup& lookup = Find(head);
    return lookup.schema != nullptr || !lookup.status.ok();
  }

  /// The schema of a node that a pack's operator runs, for good; nullptr where it is none such.
  const Schema* FindNative(const NodeHead& head) {
    if (head.IsPyOp() || IsAten(head)) return nullptr;
    const Schema* const schema = Find(head).schema.get();
    return schema != nullptr && schema->native ? schema : nullptr;
  }

  /// Whether a node of ours would be another operator at this version of its domain.
  bool IsAnother(const NodeHead& head, std::int64_t version);

  /// Reads one of our nodes that is not canonical yet, and no pack's, and checks that the runtime
  /// lets a custom operator have its types.
  Status Read(std::string_view node, const NodeHead& head, const DeclaredValues& declared,
              PyOpNode* read);

 private:
  /// What is known of a node's operator: whether it is declared, and by what schema.
  struct Lookup {
    Status status;  // an error where it is declared, but cannot be had
    std::shared_ptr<const Schema> schema;
  };

  const Lookup& Find(const NodeHead& head);
  Status CheckCarried(const pyop::Spec& spec) const;

  OperatorSource& source_;
  const RuntimeLimits& limits_;
  const std::string_view runtime_version_;
  Modules modules_;
  std::map<std::string_view, std::int64_t> versions_;  // of the domains that the model imports
  std::map<std::pair<std::string_view, std::string_view>, Lookup> lookups_;  // by domain and name
};

}  // namespace opgraft::model
