// The operators that ONNX Runtime itself may have, and some that it lacks.
#pragma once

#include <string_view>

#include "model/pyop_node.h"

namespace opgraft::model {

/// Whether an operator in one of the runtime's domains may be its own, so that the runtime runs it:
/// any operator in the domains that ONNX defines, and in com.microsoft those of any known runtime.
bool RuntimeMayHave(std::string_view domain, std::string_view name);

/// Whether no known runtime runs a node of ONNX, although the node's opset is one that the runtime
/// supports, or that no runtime limits.
bool RuntimeLacks(std::string_view node, const NodeHead& head);

}  // namespace opgraft::model
