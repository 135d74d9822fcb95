// Packs for the package: loading them, what they declare, and their operators on NumPy arrays.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

void DefinePacks(nanobind::module_& module);

}  // namespace opgraft::pyop
