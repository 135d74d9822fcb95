// Turns the node of a declared operator into a canonical node.
#pragma once

#include <string_view>

#include "core/schema.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Reads a node of the operator that `schema` describes, and arranges it so that ONNX Runtime can
/// infer the types of its outputs. Returns a ModelError if the node or graph does not fit the
/// schema.
Status ReadDeclared(std::string_view node, const Schema& schema, const DeclaredValues& declared,
                    PyOpNode* read);

/// Checks a node of the operator that `schema` describes. Returns a ModelError if the node or graph
/// does not fit the schema.
Status CheckDeclared(std::string_view node, const Schema& schema, const DeclaredValues& declared);

}  // namespace opgraft::model
