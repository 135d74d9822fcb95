// Floats of 16 bits or fewer, for which C++ has no types.
#pragma once

#include <cstdint>

namespace opgraft::run {

/// Whether SmallFloat can read elements of this ONNX element type.
bool IsSmallFloat(std::int64_t element_type);

/// Returns the value of an element of such a type from its bits.
double SmallFloat(std::int64_t element_type, std::uint32_t bits);

}  // namespace opgraft::run
