// Registers Opgraft's operators, under a policy, with the options of a session.
#pragma once

#include <string>
#include <string_view>

#include "adapter/runtime.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// The entry of the session options that holds the list of allowed modules.
inline constexpr char kAllowEntry[] = "opgraft.allow";

/// Returns the value of the environment variable OPGRAFT_ALLOW.
std::string AllowedByEnvironment();

/// Registers Opgraft's operators under the policy `allow`, and the operators of packs. Calling it
/// again under the same policy adds those of packs that were loaded in the meantime; under another
/// policy it is refused, because a runtime cannot undo a registration.
Status Register(const Runtime& runtime, OrtSessionOptions* options, std::string_view allow);

}  // namespace opgraft::ort
