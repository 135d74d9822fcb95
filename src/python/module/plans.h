// Makes plans of sessions, which Python carries out.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

/// Defines `SessionPlan` and `make_plan` in the module.
void DefinePlans(nanobind::module_& module);

}  // namespace opgraft::pyop
