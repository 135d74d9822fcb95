// Opset versions that are newer than the runtime's, and whether a model may do with an older one.
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

/// What about a node of opset `version` is another in the newest one that the runtime takes; ""
/// where it means the same there, or the runtime takes the version as it is.
std::string DifferenceIn(const RuntimeLimits& limits, std::string_view node, const NodeHead& head,
                         std::int64_t version);

/// The refusal of a model whose IR version is newer than those that are known.
Status IrIsUnknown(std::string_view origin, std::int64_t ir_version);

class Lowering {
 public:
  explicit Lowering(const RuntimeLimits& limits) : limits_(limits) {}

  /// Reads what the model and its functions import; before the nodes, which may come first.
  void Read(std::string_view model);
  /// Lowers a version to what the runtime takes; false where it takes it as it is.
  bool Lower(OpsetImport* import) const;
  /// Takes note of a node that the runtime will run.
  void NoteNode(std::string_view node, const NodeHead& head);

  /// A ModelError where a node does not mean the same in the lowered version. `opset_limit` is set
  /// where the default domain is in the way, for a host that can convert the model.
  Status Check(std::string_view origin, std::string_view runtime_version,
               std::int64_t* opset_limit) const;

 private:
  const RuntimeLimits limits_;
  std::map<std::string_view, std::int64_t> lowered_;  // the highest version of each such domain
  std::map<std::string_view, std::set<std::string>> differences_;  // operators, by their domain
};

}  // namespace opgraft::model
