// Floats of 16 bits and fewer, which C++ has no types for.
#pragma once

#include <cstdint>

namespace opgraft::run {

/// Whether it is one of ONNX's element types that SmallFloat can read.
bool IsSmallFloat(std::int64_t element_type);

/// The value of an element of such a type, whose bits these are.
double SmallFloat(std::int64_t element_type, std::uint32_t bits);

}  // namespace opgraft::run
