// Lets Python read the arguments of torch operators in the notation of docs/aten.md.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

/// Adds read_aten_arguments() and the class of its results to the Python module.
void DefineAtenArguments(nanobind::module_& module);

}  // namespace opgraft::pyop
