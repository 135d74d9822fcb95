// Decides which nodes mean the same in an older opset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opgraft::model {

/// Returns what differs for a node of the default domain between the opsets `older` and `newer`,
/// such as "Range with 'stash_type' (since opset 27)". Returns "" if it means exactly the same in
/// both, or if ONNX Runtime refuses it in the older opset because of its types. Knows opsets 22 to
/// 28; all nodes are taken to differ outside of this range.
std::string Difference(std::string_view node, std::string_view op_type, std::int64_t older,
                       std::int64_t newer);

/// Returns the newest of these opsets.
std::int64_t NewestKnownOpset();

}  // namespace opgraft::model
