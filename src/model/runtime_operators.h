// Which operators of its own ONNX Runtime has.
#pragma once

#include <string_view>

namespace opgraft::model {

/// Whether an operator of one of the runtime's domains may be one of its own, which then runs it.
/// Any in the domains that ONNX defines; in com.microsoft those that some runtime has had.
bool RuntimeMayHave(std::string_view domain, std::string_view name);

}  // namespace opgraft::model
