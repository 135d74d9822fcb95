// The element types of the tensors that ATen nodes take and return, by torch's names.
#pragma once

#include <cstdint>
#include <string_view>

namespace opgraft::aten {

struct Dtype {
  std::string_view name;    ///< torch's, such as "complex64"
  int element_type = 0;     ///< ONNX's number; for complex types that of the two parts
  bool is_complex = false;  ///< in ONNX: pairs along an additional last dimension
  int size = 0;             ///< of one element, in bytes

  bool operator==(const Dtype& other) const { return name == other.name; }
};

/// Returns nullptr if there is no such type, or ONNX Runtime has no tensors of it.
const Dtype* FindDtype(std::string_view name);

/// Returns the type of tensors that have this element type in ONNX; nullptr if torch has none.
const Dtype* FindDtype(int element_type, bool is_complex);

/// All types, in a fixed order.
inline constexpr int kDtypes = 20;
const Dtype& DtypeAt(int index);

}  // namespace opgraft::aten
