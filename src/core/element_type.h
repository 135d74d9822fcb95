// What the core does with element types; the table of them is opgraft/element_table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "opgraft/element_table.h"

namespace opgraft {

using internal::ElementType;
using internal::FindElementType;
using internal::kElementTypes;

/// The number of the type whose elements are texts of any length.
inline constexpr std::int64_t kString = 8;

/// "float32", or "type number 77" where ONNX has no such type.
std::string ElementTypeName(std::int64_t number);

/// From ONNX's bytes, in which elements of a packed type share bytes, to NumPy's, with one byte for
/// each, and back. Shown to opgraft._pyop, though the table is hidden.
[[gnu::visibility("default")]] void Unpack(const ElementType& type, const void* packed,
                                           std::size_t elements, void* unpacked);
[[gnu::visibility("default")]] void Pack(const ElementType& type, const void* unpacked,
                                         std::size_t elements, void* packed);

}  // namespace opgraft
