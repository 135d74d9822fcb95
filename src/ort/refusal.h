// What ONNX Runtime says where it refuses a model, and what to do about it.
#pragma once

#include <string_view>

#include "opgraft/status.h"

namespace opgraft::ort {

/// The error of a session that could not be made, as the runtime puts it: a ModelError with a hint
/// where the model is to blame; as it is where it is one of ours, or about something else.
Status ToRefusal(Status status);

}  // namespace opgraft::ort
