// Shapes that need not be known, as opgraft._shapes has them.
#pragma once

#include <nanobind/nanobind.h>

#include "core/schema.h"

namespace opgraft::pyop {

/// A tuple of int, str and None; an ellipsis for an unknown rank.
nanobind::object ToPython(const SymbolicShape& shape);

/// From a sequence of int, str and None, or from None for an unknown rank.
SymbolicShape ToShape(const nanobind::handle& shape);

}  // namespace opgraft::pyop
