// The free attributes of a PyOp node, as keyword arguments for __init__.
#pragma once

#include <nanobind/nanobind.h>

#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::pyop {

/// An error names the attribute that is broken, or the package that must be installed to read it.
Status ReadArguments(const Spec& spec, nanobind::dict* arguments);

}  // namespace opgraft::pyop
