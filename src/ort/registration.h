// Registers Opgraft's operators, under a policy, with the options of a session.
#pragma once

#include <string>
#include <string_view>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// The entry of the session options that holds the list of allowed modules.
inline constexpr char kAllowEntry[] = "opgraft.allow";

/// What the variable OPGRAFT_ALLOW lists.
std::string AllowedByEnvironment();

/// Registers under the policy `allow`, the operators of packs included. Doing so again under the
/// same policy adds those of packs that were loaded in the meantime; under another it is refused,
/// since a runtime has no way to take a registration back.
Status Register(const Runtime& runtime, OrtSessionOptions* options, std::string_view allow);

}  // namespace opgraft::ort
