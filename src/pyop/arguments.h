// The free attributes of a PyOp node, as keyword arguments for __init__.
#pragma once

#include <nanobind/nanobind.h>

#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// An error names the attribute that is broken, or what is to be installed for it.
Status ReadArguments(const Spec& spec, nanobind::dict* arguments);

}  // namespace opgraft::pyop
