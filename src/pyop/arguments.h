// The free attributes of a PyOp node, as keyword arguments for __init__.
#pragma once

#include <nanobind/nanobind.h>

#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// A ModelError names an attribute of a kind that cannot be given yet.
Status ReadArguments(const Spec& spec, nanobind::dict* arguments);

}  // namespace opgraft::pyop
