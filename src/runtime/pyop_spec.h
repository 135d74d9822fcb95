// Reads a canonical PyOp node from the attributes in the runtime.
#pragma once

#include "adapter/attributes.h"
#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// Reads a canonical node except for its name. Returns a ModelError if its format is unknown.
Status ReadSpec(const Attributes& attributes, pyop::Spec* spec);

}  // namespace opgraft::ort
