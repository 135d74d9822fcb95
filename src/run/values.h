// Arrays as values of ONNX Runtime, and back.
#pragma once

#include <string>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "run/npy.h"

namespace opgraft::run {

/// A value over the array's memory where that can be, else with a copy in `*packed`; both must
/// outlive it.
Status MakeValue(const OrtApi* api, const Array& array, std::string* packed, OrtValue** value);

/// A copy of the value, which must be a tensor of a type that Opgraft carries.
Status ReadValue(const OrtApi* api, OrtValue* value, Array* array);

/// A sequence, a map or a tensor as a text: its kind, its size, then its parts in one line.
Status FormatValue(const OrtApi* api, OrtValue* value, std::string* text);

/// Gives an array that says nothing of its type that of the session's input `index`.
Status AdoptType(const OrtApi* api, const OrtSession* session, std::size_t index, Array* array);

}  // namespace opgraft::run
