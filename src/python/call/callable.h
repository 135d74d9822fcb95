// Finds or makes the Python object that a node runs.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "bridge/bridge.h"
#include "core/policy.h"
#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::pyop {

struct PythonCallable {
  nanobind::object compute;  ///< the bound method or function, so that a call looks up no name
  bool copy_inputs = false;
  /// Takes the list of the inputs' shapes and the number of outputs, returns the list of the
  /// outputs' shapes. Invalid if there is no shape rule.
  nanobind::object rule;
  bool takes_out = false;  ///< has a parameter `out`
  Traits traits;
};

/// Returns the callable of a declared operator for a node with these attributes. Needs the GIL; may
/// throw nb::python_error.
PythonCallable MakeDeclared(const std::string& full_name, const nanobind::dict& attributes);

/// Makes the callable of the class or declared operator that `spec` names. Needs the GIL; may throw
/// nb::python_error.
Status MakeCallable(const Spec& spec, const Policy& policy, PythonCallable* made);

}  // namespace opgraft::pyop
