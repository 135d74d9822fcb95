// The limit for the nesting of a model's graphs.
#pragma once

#include <string>
#include <string_view>

#include "opgraft/status.h"

namespace opgraft::model {

/// Deeper than what protobuf parses, and shallow enough for any thread's stack. Calls of inlined
/// functions count as well.
inline constexpr int kMaximumDepth = 64;

inline Status NestedTooDeep(std::string_view origin) {
  return Status::Model(std::string(origin) +
                       ": its graphs, or calls of its functions, are nested more than " +
                       std::to_string(kMaximumDepth) + " deep");
}

}  // namespace opgraft::model
