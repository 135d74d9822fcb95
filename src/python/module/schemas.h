// Exposes the core's tables and schemas to Python.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

void DefineSchemas(nanobind::module_& module);

}  // namespace opgraft::pyop
