// Reads a TensorProto, such as the value of an attribute, into a NumPy array.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "opgraft/status.h"

namespace opgraft::pyop {

/// Makes an array with its own memory. Needs the GIL. Throws protozero::exception if the bytes are
/// not a message.
Status ReadTensor(std::string_view tensor, nanobind::object* array);

}  // namespace opgraft::pyop
