// The operators that ONNX Runtime itself may have.
#pragma once

#include <string_view>

namespace opgraft::model {

/// Whether an operator in one of the runtime's domains may be its own, so that the runtime runs it:
/// any operator in the domains that ONNX defines, and in com.microsoft those of any known runtime.
bool RuntimeMayHave(std::string_view domain, std::string_view name);

}  // namespace opgraft::model
