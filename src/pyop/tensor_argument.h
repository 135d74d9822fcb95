// A TensorProto, such as an attribute may hold, as a NumPy array.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "opgraft/status.h"

namespace opgraft::pyop {

/// An array with memory of its own. Needs the GIL; throws protozero::exception where the bytes are
/// no message.
Status ReadTensor(std::string_view tensor, nanobind::object* array);

}  // namespace opgraft::pyop
