// Checks the node of a pack's operator, and writes it with the names that the runtime knows.
#pragma once

#include <string_view>

#include "core/schema.h"
#include "model/declared_values.h"
#include "model/pyop_node.h"
#include "model/rope.h"
#include "model/runtime_limits.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Checks a node against the schema of its operator and adds the resulting node to `out`; sets
/// `changed` if it differs. Returns a ModelError if the node or graph does not fit the schema.
Status WriteNative(std::string_view node, const NodeHead& head, const Schema& schema,
                   const DeclaredValues& declared, const RuntimeLimits& limits, Rope* out,
                   bool* changed);

}  // namespace opgraft::model
