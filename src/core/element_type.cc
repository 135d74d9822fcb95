// The table of ONNX's element types.
#include "core/element_type.h"

#include <cstring>
#include <iterator>

namespace opgraft {
namespace {

constexpr ElementType kElementTypes[] = {
    {0, "undefined", 0, 0},
    {1, "float32", 4, 32, true},
    {2, "uint8", 1, 8, true},
    {3, "int8", 1, 8, true},
    {4, "uint16", 2, 16, true},
    {5, "int16", 2, 16, true},
    {6, "int32", 4, 32, true},
    {7, "int64", 8, 64, true},
    {8, "string", 0, 0, true},
    {9, "bool", 1, 8, true},
    {10, "float16", 2, 16, true},
    {11, "float64", 8, 64, true},
    {12, "uint32", 4, 32, true},
    {13, "uint64", 8, 64, true},
    {14, "complex64", 8, 64},
    {15, "complex128", 16, 128},
    {16, "bfloat16", 2, 16, true},
    {17, "float8_e4m3fn", 1, 8, true},
    {18, "float8_e4m3fnuz", 1, 8, true},
    {19, "float8_e5m2", 1, 8, true},
    {20, "float8_e5m2fnuz", 1, 8, true},
    {21, "uint4", 1, 4, true},
    {22, "int4", 1, 4, true},
    {23, "float4_e2m1fn", 1, 4, true},
    {24, "float8_e8m0fnu", 1, 8},
    {25, "uint2", 1, 2},
    {26, "int2", 1, 2},
    {27, "float6_e2m3fn", 1, 6},
    {28, "float6_e3m2fn", 1, 6},
};

/// The bits of the first element of a byte.
unsigned Mask(const ElementType& type) { return (1U << static_cast<unsigned>(type.bits)) - 1U; }

}  // namespace

const ElementType* FindElementType(std::int64_t number) {
  if (number < 0 || number >= static_cast<std::int64_t>(std::size(kElementTypes))) return nullptr;
  return &kElementTypes[number];
}

std::string ElementTypeName(std::int64_t number) {
  const ElementType* type = FindElementType(number);
  return type != nullptr ? std::string(type->name) : "type number " + std::to_string(number);
}

void Unpack(const ElementType& type, const void* packed, std::size_t elements, void* unpacked) {
  const auto* const from = static_cast<const unsigned char*>(packed);
  auto* const to = static_cast<unsigned char*>(unpacked);
  const auto bits = static_cast<std::size_t>(type.bits);
  const unsigned mask = Mask(type);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t byte = i * bits / 8;
    const std::size_t shift = i * bits % 8;
    unsigned value = from[byte];
    if (shift + bits > 8) value |= static_cast<unsigned>(from[byte + 1]) << 8U;
    to[i] = static_cast<unsigned char>((value >> shift) & mask);
  }
}

void Pack(const ElementType& type, const void* unpacked, std::size_t elements, void* packed) {
  const auto* const from = static_cast<const unsigned char*>(unpacked);
  auto* const to = static_cast<unsigned char*>(packed);
  const auto bits = static_cast<std::size_t>(type.bits);
  const unsigned mask = Mask(type);
  if (elements > 0) std::memset(to, 0, type.PackedSize(elements));
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t byte = i * bits / 8;
    const std::size_t shift = i * bits % 8;
    const unsigned value = (from[i] & mask) << shift;
    to[byte] = static_cast<unsigned char>(to[byte] | value);
    if (shift + bits > 8) to[byte + 1] = static_cast<unsigned char>(value >> 8U);
  }
}

}  // namespace opgraft
