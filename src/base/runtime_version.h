// The version of ONNX Runtime, and the oldest version that Opgraft works with.
#pragma once

#include <compare>
#include <cstdio>
#include <string>
#include <string_view>

namespace opgraft {

struct RuntimeVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;

  auto operator<=>(const RuntimeVersion&) const = default;

  /// Parses a version such as "1.31.1" or "1.32.0rc1". Returns 0.0.0 if the text is not a version.
  static RuntimeVersion Parse(std::string_view text) {
    RuntimeVersion version;
    std::sscanf(std::string(text).c_str(), "%d.%d.%d", &version.major, &version.minor,
                &version.patch);
    return version;
  }
};

inline constexpr RuntimeVersion kOldestRuntime = {1, 19, 0};

}  // namespace opgraft
