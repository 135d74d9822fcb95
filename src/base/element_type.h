// Functions on element types; their table is opgraft/element_table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "opgraft/element_table.h"

namespace opgraft {

using internal::ElementType;
using internal::FindElementType;
using internal::kElementTypes;

/// The number of the element type string.
inline constexpr std::int64_t kString = 8;

/// Returns a name such as "float32", or "type number 77" if ONNX has no such type.
std::string ElementTypeName(std::int64_t number);

/// Convert between ONNX's layout, in which elements of a packed type share bytes, and NumPy's, with
/// one byte for each element. Exported to opgraft._pyop, although the table is hidden.
[[gnu::visibility("default")]] void Unpack(const ElementType& type, const void* packed,
                                           std::size_t elements, void* unpacked);
[[gnu::visibility("default")]] void Pack(const ElementType& type, const void* unpacked,
                                         std::size_t elements, void* packed);

}  // namespace opgraft
