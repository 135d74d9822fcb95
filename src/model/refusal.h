// Turns the errors with which ONNX Runtime refuses a model into errors of ours, with a hint.
#pragma once

#include <string_view>

#include "opgraft/status.h"

namespace opgraft::ort {

/// Converts the error of a session that could not be created: to a ModelError with a hint if the
/// model is to blame. Errors of ours, and errors about something else, stay as they are.
Status ToRefusal(Status status);

}  // namespace opgraft::ort
