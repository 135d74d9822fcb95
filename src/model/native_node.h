// The node of an operator of a pack, checked and called as the runtime knows it.
#pragma once

#include <string_view>

#include "core/schema.h"
#include "model/declared_values.h"
#include "model/pyop_node.h"
#include "model/rope.h"
#include "model/runtime_limits.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Checks a node against the schema of its operator and adds to `out` what becomes of it; sets
/// `changed` where that differs. A ModelError where node or graph do not fit the schema.
Status WriteNative(std::string_view node, const NodeHead& head, const Schema& schema,
                   const DeclaredValues& declared, const RuntimeLimits& limits, Rope* out,
                   bool* changed);

}  // namespace opgraft::model
