// What Python sees of the core's tables and schemas.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

void DefineSchemas(nanobind::module_& module);

}  // namespace opgraft::pyop
