// How deep the graphs of a model may be nested.
#pragma once

#include <string>
#include <string_view>

#include "opgraft/status.h"

namespace opgraft::model {

/// Deeper than anything protobuf would parse, shallow enough for any thread's stack. The calls of
/// functions that are inlined count as well.
inline constexpr int kMaximumDepth = 64;

inline Status NestedTooDeep(std::string_view origin) {
  return Status::Model(std::string(origin) +
                       ": its graphs, or calls of its functions, are nested " + "more than " +
                       std::to_string(kMaximumDepth) + " deep");
}

}  // namespace opgraft::model
