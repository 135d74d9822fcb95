// The element types of tensors: ONNX's numbers, with the names that NumPy gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace opgraft {

/// One of ONNX's TensorProto.DataType.
struct ElementType {
  std::int32_t number;
  std::string_view name;    ///< as in NumPy and ml_dtypes, such as "float32"
  std::size_t size;         ///< bytes of one element in NumPy; 0 for strings
  int bits;                 ///< of one element in ONNX; below 8 they share bytes, lowest bit first
  bool is_carried = false;  ///< ONNX Runtime has tensors of it, and so may a Python operator

  /// Elements of ONNX's lie otherwise than NumPy's, several to a byte.
  bool IsPacked() const { return bits > 0 && bits < 8; }
  /// The bytes of so many elements in ONNX.
  std::size_t PackedSize(std::size_t elements) const {
    return IsPacked() ? (elements * static_cast<std::size_t>(bits) + 7) / 8 : elements * size;
  }
};

/// The number of the type whose elements are texts of any length.
inline constexpr std::int64_t kString = 8;

/// The type that ONNX calls `number`, or nullptr.
const ElementType* FindElementType(std::int64_t number);

/// "float32", or "type number 77" where ONNX has no such type.
std::string ElementTypeName(std::int64_t number);

/// From ONNX's bytes, in which elements of a packed type share bytes, to NumPy's, with one byte for
/// each, and back.
void Unpack(const ElementType& type, const void* packed, std::size_t elements, void* unpacked);
void Pack(const ElementType& type, const void* unpacked, std::size_t elements, void* packed);

}  // namespace opgraft
