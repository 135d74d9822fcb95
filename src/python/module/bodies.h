// The bodies of ONNX's operators, for tests that compare them with onnx's own.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

/// Adds function_body() to the Python module.
void DefineBodies(nanobind::module_& module);

}  // namespace opgraft::pyop
