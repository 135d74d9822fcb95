// The bodies of ONNX's operators: the older operators that an operator stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/declared_values.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Whether the operator has a body in this version of its domain. Whether a body fits a node is
/// known only when it is written.
bool HasBody(std::string_view domain, std::string_view op_type, std::int64_t version);

/// Writes the body of a node as a FunctionProto, which the node calls. Its nodes are in the same
/// opset as the node, except those of the same operator, which are meant in its previous version.
/// `function` stays empty if the operator has no body. Returns a ModelError, which begins with
/// `origin`, if the node has one but is invalid, or if the body depends on something that the model
/// does not declare.
Status FindBody(std::string_view node, const NodeHead& head, std::int64_t version,
                const DeclaredValues& declared, std::string_view origin, std::string* function);

}  // namespace opgraft::model
