// Lets Python read which torch calls the operators of packs stand for.
#pragma once

#include <nanobind/nanobind.h>

namespace opgraft::pyop {

void DefineTorchCalls(nanobind::module_& module);

}  // namespace opgraft::pyop
