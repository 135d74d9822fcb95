// Lowers opset versions that are too new for the runtime, if the model keeps its meaning.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "model/opset_import.h"
#include "model/pyop_node.h"
#include "model/runtime_limits.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Returns what differs for a node of opset `version` in the newest opset that the runtime
/// supports; "" if it means the same there, or if the runtime supports the version.
std::string DifferenceIn(const RuntimeLimits& limits, std::string_view node, const NodeHead& head,
                         std::int64_t version);

/// Returns the error for a model whose IR version is newer than the known ones.
Status IrIsUnknown(std::string_view origin, std::int64_t ir_version);

class Lowering {
 public:
  explicit Lowering(const RuntimeLimits& limits) : limits_(limits) {}

  /// Reads the imports of the model and its functions. Call it first, because nodes may precede
  /// imports.
  void Read(std::string_view model);
  /// Lowers a version to the newest that the runtime supports; returns false if it need not change.
  bool Lower(OpsetImport* import) const;
  /// Returns the opset version of a node that the runtime cannot run, but whose operator has a body
  /// that stands for it; 0 for any other node.
  std::int64_t VersionForBody(std::string_view node, const NodeHead& head) const;
  /// Records a node that the runtime will run.
  void NoteNode(std::string_view node, const NodeHead& head);

  /// Returns a ModelError if a node does not mean the same in the lowered version. Sets
  /// `opset_limit` if the default domain is the cause, for a host that can convert the model.
  Status Check(std::string_view origin, std::string_view runtime_version,
               std::int64_t* opset_limit) const;

 private:
  struct Range {
    std::int64_t lowest;
    std::int64_t highest;
  };

  const RuntimeLimits limits_;
  std::map<std::string_view, Range> imported_;        // by domain
  std::map<std::string_view, std::int64_t> lowered_;  // the highest version of each lowered domain
  std::map<std::string_view, std::set<std::string>> differences_;  // operators by domain
};

}  // namespace opgraft::model
