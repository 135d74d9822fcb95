// Converts arrays to values of ONNX Runtime and back.
#pragma once

#include <string>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "run/npy.h"

namespace opgraft::run {

/// Creates a value in the array's memory if possible, else in a copy in `*packed`; both must
/// outlive the value.
Status MakeValue(const OrtApi* api, const Array& array, std::string* packed, OrtValue** value);

/// Copies a value, which must be a tensor of a type that Opgraft supports.
Status ReadValue(const OrtApi* api, OrtValue* value, Array* array);

/// Formats a sequence, a map or a tensor: its kind, its size, then its parts in one line.
Status FormatValue(const OrtApi* api, OrtValue* value, std::string* text);

/// Gives an untyped array the type of the session's input `index`; refuses an array of another
/// type.
Status AdoptType(const OrtApi* api, const OrtSession* session, std::size_t index, Array* array);

}  // namespace opgraft::run
