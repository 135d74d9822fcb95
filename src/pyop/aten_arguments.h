// The arguments of operators of torch, as docs/aten.md writes them, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

/// Adds read_aten_arguments() and the classes of what it returns to the Python module.
void DefineAtenArguments(nanobind::module_& module);

}  // namespace opgraft::pyop
