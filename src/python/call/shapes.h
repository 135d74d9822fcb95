// Converts shapes with unknown sizes from and to the form of opgraft._declare._shapes.
#pragma once

#include <nanobind/nanobind.h>

#include "core/schema.h"

namespace opgraft::pyop {

/// Returns a tuple of int, str and None, or an ellipsis for an unknown rank.
nanobind::object ToPython(const SymbolicShape& shape);

/// Takes a sequence of int, str and None, or None for an unknown rank.
SymbolicShape ToShape(const nanobind::handle& shape);

}  // namespace opgraft::pyop
