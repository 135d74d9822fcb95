// The domains of packs' operators. libopgraft registers them all, so that several packs can share a
// domain.
#pragma once

#include "adapter/runtime.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// Registers the operators of all loaded packs with `options`. Calling it again adds the domains of
/// packs that were loaded in the meantime. Returns an Error if one of these has operators in a
/// domain that the options have already, because a runtime cannot undo a registration.
Status RegisterPacks(const Runtime& runtime, OrtSessionOptions* options);

/// Reads a configuration entry of the options.
Status ReadEntry(const OrtApi* api, const OrtSessionOptions* options, const char* name,
                 bool* is_there, std::string* value);

}  // namespace opgraft::ort
