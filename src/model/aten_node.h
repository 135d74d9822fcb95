// ATen nodes: what a graph has to say of them before a runtime takes them.
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

/// A node of the domain, of torch's legacy exporter too, which may name the operator by its type.
inline bool IsAten(const NodeHead& head) { return head.domain == kAtenDomain; }

/// Whether it is in the form of torch's legacy exporter, not in our encoding.
bool IsLegacyAten(std::string_view node, const NodeHead& head);

/// What preparing has to know of an ATen node. Views of its bytes.
struct AtenNode {
  std::string operator_name;  ///< "aten::median.dim", for the report
  std::vector<std::string_view> outputs;
  std::vector<aten::NodeOutput> said;  ///< what it says of them
};

/// Reads a node that is in our encoding; a ModelError where its outputs cannot be read.
Status ReadAten(std::string_view node, const NodeHead& head, AtenNode* read);

}  // namespace opgraft::model
