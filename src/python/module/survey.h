// The functions for opgraft doctor: a survey of a model, and whether a module is allowed.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

/// Adds survey() and allows() to the Python module.
void DefineSurvey(nanobind::module_& module);

}  // namespace opgraft::pyop
