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

/// The entry that says how operators run in worker processes; without it they run in this one.
inline constexpr char kIsolationEntry[] = "opgraft.isolation";

/// Returns the value of the environment variable OPGRAFT_ALLOW.
std::string AllowedByEnvironment();

/// Registers Opgraft's operators under the policy `allow`, with the isolation that the options
/// name, and the operators of packs. Calling it
/// again under the same policy adds those of packs that were loaded in the meantime; under another
/// policy it is refused, because a runtime cannot undo a registration.
Status Register(const Runtime& runtime, OrtSessionOptions* options, std::string_view allow);

}  // namespace opgraft::ort
