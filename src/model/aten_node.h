// ATen nodes: what preparing needs to know about them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "aten/encoding.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

inline constexpr char kAtenDomain[] = "org.pytorch.aten";
inline constexpr char kAtenOpType[] = "ATen";

/// Whether a node is in the domain of ATen nodes. This includes nodes of torch's legacy exporter,
/// which may name the operator by the node's type.
inline bool IsAten(const NodeHead& head) { return head.domain == kAtenDomain; }

/// Whether the node has the form of torch's legacy exporter rather than our encoding.
bool IsLegacyAten(std::string_view node, const NodeHead& head);

/// What preparing needs to know about an ATen node. Views of its bytes.
struct AtenNode {
  std::string operator_name;  ///< "aten::median.dim", for the report
  std::vector<std::string_view> outputs;
  std::vector<aten::NodeOutput> said;  ///< what the node declares about its outputs
};

/// Reads a node in our encoding. Returns a ModelError if its outputs cannot be read.
Status ReadAten(std::string_view node, const NodeHead& head, AtenNode* read);

}  // namespace opgraft::model
