// The domains that packs have operators in, registered by libopgraft alone, so that several packs
// can share one.
#pragma once

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// Registers the operators of all packs that are loaded with `options`. Doing so again adds the
/// domains of packs that were loaded in the meantime; an Error where one of them has operators in
/// a domain that the options have already, for a runtime cannot take that back.
Status RegisterPacks(const Runtime& runtime, OrtSessionOptions* options);

/// Reads an entry of the options' configuration.
Status ReadEntry(const OrtApi* api, const OrtSessionOptions* options, const char* name,
                 bool* is_there, std::string* value);

}  // namespace opgraft::ort
