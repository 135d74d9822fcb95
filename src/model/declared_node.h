// The node of a declared operator, and the canonical node it becomes.
#pragma once

#include <string_view>

#include "core/schema.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Reads a node of the operator that `schema` describes and arranges it so that ONNX Runtime finds
/// the types of its outputs. A ModelError where node or graph do not fit the schema.
Status ReadDeclared(std::string_view node, const Schema& schema, const DeclaredValues& declared,
                    PyOpNode* read);

/// Checks a node of the operator that `schema` describes. A ModelError where node or graph do not
/// fit the schema.
Status CheckDeclared(std::string_view node, const Schema& schema, const DeclaredValues& declared);

}  // namespace opgraft::model
