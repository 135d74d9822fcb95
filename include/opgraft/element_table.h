// The single table of element types, with their names in ONNX, NumPy, torch and DLPack. It is
// public because packs and test programs need the names too. The core reads it through
// base/element_type.h, Python as opgraft._pyop.ELEMENT_TYPES.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft::internal {

/// DLDataTypeCode.
enum class DlpackCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3Fn = 10,
  kFloat8E4M3FnUz = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2FnUz = 13,
  kNone = 255,
};

/// A type of ONNX's TensorProto.DataType, or torch's complex32, which has the number 0.
struct ElementType {
  std::int32_t number;
  std::string_view name;       ///< in NumPy, ml_dtypes and torch: "float32"
  std::string_view onnx_name;  ///< as in "tensor(float)"
  std::size_t size;            ///< bytes of an element in NumPy; 0 for strings
  int bits;  ///< of an element in ONNX; below 8, elements share bytes, lowest bits first
  bool is_carried = false;  ///< ONNX Runtime has such tensors, so that Python operators may too
  char numpy_kind = 0;      ///< as in "f4"; 0 if only ml_dtypes has the type
  int torch_number = -1;    ///< c10::ScalarType; -1 if torch has no such tensors
  DlpackCode dlpack = DlpackCode::kNone;
  std::int32_t parts = 0;  ///< for complex numbers, the type of their two parts
  double tolerance = 0;    ///< OpTester's default, absolute and relative

  /// Whether ONNX packs several elements into a byte, unlike NumPy.
  constexpr bool IsPacked() const { return bits > 0 && bits < 8; }
  /// Returns the size in bytes of this many elements in ONNX.
  constexpr std::size_t PackedSize(std::size_t elements) const {
    return IsPacked() ? (elements * static_cast<std::size_t>(bits) + 7) / 8 : elements * size;
  }
};

/// Indexed by ONNX's numbers; torch's complex32 comes last.
inline constexpr ElementType kElementTypes[] = {
    {0, "undefined", "undefined", 0, 0},
    {1, "float32", "float", 4, 32, true, 'f', 6, DlpackCode::kFloat, 0, 1e-5},
    {2, "uint8", "uint8", 1, 8, true, 'u', 0, DlpackCode::kUInt},
    {3, "int8", "int8", 1, 8, true, 'i', 1, DlpackCode::kInt},
    {4, "uint16", "uint16", 2, 16, true, 'u', 27, DlpackCode::kUInt},
    {5, "int16", "int16", 2, 16, true, 'i', 2, DlpackCode::kInt},
    {6, "int32", "int32", 4, 32, true, 'i', 3, DlpackCode::kInt},
    {7, "int64", "int64", 8, 64, true, 'i', 4, DlpackCode::kInt},
    {8, "string", "string", 0, 0, true, 'O'},
    {9, "bool", "bool", 1, 8, true, 'b', 11, DlpackCode::kBool},
    {10, "float16", "float16", 2, 16, true, 'f', 5, DlpackCode::kFloat, 0, 2e-3},
    {11, "float64", "double", 8, 64, true, 'f', 7, DlpackCode::kFloat, 0, 1e-9},
    {12, "uint32", "uint32", 4, 32, true, 'u', 28, DlpackCode::kUInt},
    {13, "uint64", "uint64", 8, 64, true, 'u', 29, DlpackCode::kUInt},
    {14, "complex64", "complex64", 8, 64, false, 'c', 9, DlpackCode::kComplex, 1},
    {15, "complex128", "complex128", 16, 128, false, 'c', 10, DlpackCode::kComplex, 11},
    {16, "bfloat16", "bfloat16", 2, 16, true, 0, 15, DlpackCode::kBfloat, 0, 2e-2},
    {17, "float8_e4m3fn", "float8e4m3fn", 1, 8, true, 0, 24, DlpackCode::kFloat8E4M3Fn},
    {18, "float8_e4m3fnuz", "float8e4m3fnuz", 1, 8, true, 0, 26, DlpackCode::kFloat8E4M3FnUz},
    {19, "float8_e5m2", "float8e5m2", 1, 8, true, 0, 23, DlpackCode::kFloat8E5M2},
    {20, "float8_e5m2fnuz", "float8e5m2fnuz", 1, 8, true, 0, 25, DlpackCode::kFloat8E5M2FnUz},
    {21, "uint4", "uint4", 1, 4, true},
    {22, "int4", "int4", 1, 4, true},
    {23, "float4_e2m1fn", "float4e2m1", 1, 4, true},
    // torch has this type too, but no runtime can take it from torch.
    {24, "float8_e8m0fnu", "float8e8m0", 1, 8},
    {25, "uint2", "uint2", 1, 2},
    {26, "int2", "int2", 1, 2},
    {27, "float6_e2m3fn", "float6e2m3", 1, 6},
    {28, "float6_e3m2fn", "float6e3m2", 1, 6},
    {0, "complex32", "", 4, 32, false, 0, 8, DlpackCode::kNone, 10},
};
inline constexpr std::size_t kOnnxElementTypes = std::size(kElementTypes) - 1;

/// Returns the type that ONNX calls `number`, or nullptr.
constexpr const ElementType* FindElementType(std::int64_t number) {
  const bool is_known = number >= 0 && number < static_cast<std::int64_t>(kOnnxElementTypes);
  return is_known ? &kElementTypes[number] : nullptr;
}

}  // namespace opgraft::internal
#pragma GCC visibility pop
