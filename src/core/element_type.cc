// The table of ONNX's element types.
#include "core/element_type.h"

#include <iterator>

namespace opgraft {
namespace {

constexpr ElementType kElementTypes[] = {
    {0, "undefined", 0},
    {1, "float32", 4},
    {2, "uint8", 1},
    {3, "int8", 1},
    {4, "uint16", 2},
    {5, "int16", 2},
    {6, "int32", 4},
    {7, "int64", 8},
    {8, "string", 0},
    {9, "bool", 1},
    {10, "float16", 2},
    {11, "float64", 8},
    {12, "uint32", 4},
    {13, "uint64", 8},
    {14, "complex64", 0},
    {15, "complex128", 0},
    {16, "bfloat16", 0},
    {17, "float8_e4m3fn", 0},
    {18, "float8_e4m3fnuz", 0},
    {19, "float8_e5m2", 0},
    {20, "float8_e5m2fnuz", 0},
    {21, "uint4", 0},
    {22, "int4", 0},
    {23, "float4_e2m1fn", 0},
    {24, "float8_e8m0fnu", 0},
    {25, "uint2", 0},
    {26, "int2", 0},
    {27, "float6_e2m3fn", 0},
    {28, "float6_e3m2fn", 0},
};

}  // namespace

const ElementType* FindElementType(std::int64_t number) {
  if (number < 0 || number >= static_cast<std::int64_t>(std::size(kElementTypes))) return nullptr;
  return &kElementTypes[number];
}

std::string ElementTypeName(std::int64_t number) {
  const ElementType* type = FindElementType(number);
  return type != nullptr ? std::string(type->name) : "type number " + std::to_string(number);
}

}  // namespace opgraft
