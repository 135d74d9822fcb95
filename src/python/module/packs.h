// Packs for the Python package: loading them, reading their declarations, and running operators.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

void DefinePacks(nanobind::module_& module);

}  // namespace opgraft::pyop
