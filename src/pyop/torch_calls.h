// What operators of packs say of torch, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

void DefineTorchCalls(nanobind::module_& module);

}  // namespace opgraft::pyop
