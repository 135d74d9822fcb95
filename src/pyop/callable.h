// The Python object that a node runs: found, made, and ready to be called.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "core/policy.h"
#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

struct PythonCallable {
  nanobind::object compute;  ///< the bound method or function: no lookup by name in a call
  bool copy_inputs = false;
  /// From the list of the inputs' shapes and the number of outputs to the list of their shapes;
  /// invalid where there is no shape rule.
  nanobind::object rule;
  bool takes_out = false;  ///< has a parameter `out`
};

/// That of a declared operator, for a node with these attributes. Needs the GIL; may throw
/// nb::python_error.
PythonCallable MakeDeclared(const std::string& full_name, const nanobind::dict& attributes);

/// Makes the class or declared operator of `spec` ready. Needs the GIL; may throw
/// nb::python_error.
Status MakeCallable(const Spec& spec, const Policy& policy, PythonCallable* made);

}  // namespace opgraft::pyop
