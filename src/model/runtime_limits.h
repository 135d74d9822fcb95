// What a version of ONNX Runtime supports.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/runtime_version.h"

namespace opgraft::model {

/// The domain of the runtime's own operators, whose only version is 1; other numbers mean nothing.
inline constexpr std::string_view kContribDomain = "com.microsoft";
inline constexpr std::string_view kMachineLearningDomain = "ai.onnx.ml";

/// The newest IR version that Opgraft knows (onnx 1.23). A model with a newer version is refused,
/// because the meaning of its fields is not known.
inline constexpr std::int64_t kNewestKnownIr = 14;

/// The newest models that a runtime loads.
struct RuntimeLimits {
  std::int64_t ir_version;
  std::int64_t opset;  ///< of the default domain
  /// Whether it can be told where the external data of a model in memory are.
  bool takes_folder;
  /// The number of the last element type that custom operators may use.
  std::int64_t last_type;
  /// Whether custom operators can read attributes that are lists of texts.
  bool hands_over_texts;
};

/// Returns the limits of a runtime. A runtime newer than all known ones gets the limits of the
/// newest known one, which is safe.
RuntimeLimits LimitsOf(const RuntimeVersion& version);

/// Returns the newest version of `domain` that such a runtime supports; nullopt if it does not know
/// the domain and accepts any version.
std::optional<std::int64_t> OpsetLimit(const RuntimeLimits& limits, std::string_view domain);

}  // namespace opgraft::model
