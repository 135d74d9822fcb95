// The element types of tensors that ATen nodes take and give, by torch's names.
#pragma once

#include <cstdint>
#include <string_view>

namespace opgraft::aten {

struct Dtype {
  std::string_view name;    ///< torch's, such as "complex64"
  int element_type = 0;     ///< of ONNX: that of the parts, for complex numbers
  bool is_complex = false;  ///< pairs, along one dimension more
  int size = 0;             ///< of an element, in bytes

  bool operator==(const Dtype& other) const { return name == other.name; }
};

/// nullptr for a name that is none, or of a type that ONNX Runtime does not carry.
const Dtype* FindDtype(std::string_view name);

/// The type of tensors that have this element type in ONNX; nullptr where torch has none.
const Dtype* FindDtype(int element_type, bool is_complex);

/// All of them, in an order of their own.
inline constexpr int kDtypes = 20;
const Dtype& DtypeAt(int index);

}  // namespace opgraft::aten
