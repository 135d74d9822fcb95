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
  std::string_view name;  ///< as in NumPy and ml_dtypes, such as "float32"
  std::size_t size;       ///< bytes of one element; 0 where Opgraft does not carry the type yet
};

/// The type that ONNX calls `number`, or nullptr.
const ElementType* FindElementType(std::int64_t number);

/// "float32", or "type number 77" where ONNX has no such type.
std::string ElementTypeName(std::int64_t number);

}  // namespace opgraft
