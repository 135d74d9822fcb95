// The domains of operators that ONNX and ONNX Runtime define.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace opgraft {

inline constexpr auto kRuntimeDomains = std::to_array<std::string_view>(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft",
     "com.microsoft.nchwc", "com.ms.internal.nhwc"});

/// The domain of onnxruntime-extensions, for Python operators and for native ones.
inline constexpr std::string_view kExtensionsDomain = "ai.onnx.contrib";

/// Whether a domain belongs to ONNX Runtime. Others must not register operators in such a domain,
/// because the runtime's optimisers create nodes in it for every model.
constexpr bool IsRuntimeDomain(std::string_view domain) {
  return std::ranges::find(kRuntimeDomains, domain) != kRuntimeDomains.end();
}

}  // namespace opgraft
