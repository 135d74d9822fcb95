// What a version of ONNX Runtime takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/runtime_version.h"

namespace opgraft::model {

/// The runtime's own operators, which have never had a version but 1: another number says nothing.
inline constexpr std::string_view kContribDomain = "com.microsoft";
inline constexpr std::string_view kMachineLearningDomain = "ai.onnx.ml";

/// The newest IR version that has been read about, in onnx 1.23. A model of a newer one is refused:
/// its fields may mean something that nobody here can know.
inline constexpr std::int64_t kNewestKnownIr = 14;

/// The newest model that a runtime loads.
struct RuntimeLimits {
  std::int64_t ir_version;
  std::int64_t opset;  ///< of the default domain
  /// Can be told where the external data of a model in memory lies.
  bool takes_folder;
  /// The number of the last element type that custom operators may have.
  std::int64_t last_type;
  /// Custom operators can ask for attributes that are lists of texts.
  bool hands_over_texts;
};

/// A runtime newer than any known is taken for the newest known one, which is never wrong, only
/// careful.
RuntimeLimits LimitsOf(const RuntimeVersion& version);

/// The newest version of `domain` that such a runtime takes; none where it does not know the domain
/// and takes any.
std::optional<std::int64_t> OpsetLimit(const RuntimeLimits& limits, std::string_view domain);

}  // namespace opgraft::model
