// Names of element types, and packing of elements that share bytes.
#include "base/element_type.h"

#include <cstring>

namespace opgraft {
namespace {

/// Returns a mask of the bits of one element.
unsigned Mask(const ElementType& type) { return (1U << static_cast<unsigned>(type.bits)) - 1U; }

}  // namespace

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
