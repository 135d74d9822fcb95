// A canonical PyOp node, as the runtime's attributes tell it.
#pragma once

#include "opgraft/status.h"
#include "ort/attributes.h"
#include "pyop/spec.h"

namespace opgraft::ort {

/// Reads a canonical node, all but its name. A ModelError where it is of an unknown format.
Status ReadSpec(const Attributes& attributes, pyop::Spec* spec);

}  // namespace opgraft::ort
