// Which nodes mean the same in an older opset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opgraft::model {

/// What about a node of the default domain is not the same in opset `older` as in `newer`, such as
/// "Range with 'stash_type' (since opset 27)"; "" where it means exactly the same in both, or is
/// refused by ONNX Runtime in the older one because of its types. Knows opsets 22 to 28; beyond
/// them all is taken to be different.
std::string Difference(std::string_view node, std::string_view op_type, std::int64_t older,
                       std::int64_t newer);

/// The newest of them.
std::int64_t NewestKnownOpset();

}  // namespace opgraft::model
