// What a version of ONNX Runtime takes, and which operators stand in the way of an older opset.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/runtime_version.h"

namespace opgraft::model {

/// The newest model that a runtime loads.
struct RuntimeLimits {
  std::int64_t ir_version;
  std::int64_t opset;  ///< of the default domain
  /// Can be told where the external data of a model in memory lies.
  bool takes_folder;
  /// The number of the last element type that custom operators may have.
  std::int64_t last_type;
};

/// A runtime newer than any known is taken for the newest known one, which is never wrong, only
/// careful.
RuntimeLimits LimitsOf(const RuntimeVersion& version);

/// Whether the default domain's `op_type` means the same in both opsets, `older` <= `newer`:
/// no opset between them brought or changed it. Knows opsets 22 to 28, false beyond.
bool IsSameOperator(std::string_view op_type, std::int64_t older, std::int64_t newer);

}  // namespace opgraft::model
