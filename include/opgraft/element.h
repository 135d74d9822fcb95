// The element types of tensors, as C++ types.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft {

/// A 16-bit float, which converts from and to float for arithmetic.
class Float16 {
 public:
  Float16() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): converts like the built-in numbers
  Float16(float value) : bits_(FromFloat(value)) {}
  operator float() const { return ToFloat(bits_); }  // NOLINT(google-explicit-constructor)

  static Float16 FromBits(std::uint16_t bits) {
    Float16 made;
    made.bits_ = bits;
    return made;
  }
  std::uint16_t bits() const { return bits_; }

 private:
  static std::uint16_t FromFloat(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);   // NaN
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // too large
    if (magnitude < 0x38800000U) {
      // Below the smallest normal number: adding 0.5 rounds to even and leaves the last ten bits.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) & 0x7fffU));
    }
    const std::uint32_t odd = magnitude >> 13U & 1U;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13U));
  }
  static float ToFloat(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | magnitude << 13U);
    if (magnitude >= 0x400U) return std::bit_cast<float>(sign | ((magnitude << 13U) + 0x38000000U));
    const float small = std::bit_cast<float>(magnitude | 0x3f000000U) - 0.5F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(small));
  }

  std::uint16_t bits_ = 0;
};

/// The upper half of a float, which converts from and to float for arithmetic.
class BFloat16 {
 public:
  BFloat16() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): converts like the built-in numbers
  BFloat16(float value) : bits_(FromFloat(value)) {}
  operator float() const {  // NOLINT(google-explicit-constructor)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16U);
  }

  static BFloat16 FromBits(std::uint16_t bits) {
    BFloat16 made;
    made.bits_ = bits;
    return made;
  }
  std::uint16_t bits() const { return bits_; }

 private:
  static std::uint16_t FromFloat(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
  }

  std::uint16_t bits_ = 0;
};

/// The number that ONNX gives an element type; 0 for a C++ type that is not an element type.
template <class T>
inline constexpr std::int32_t kElementType = 0;
template <>
inline constexpr std::int32_t kElementType<float> = 1;
template <>
inline constexpr std::int32_t kElementType<std::uint8_t> = 2;
template <>
inline constexpr std::int32_t kElementType<std::int8_t> = 3;
template <>
inline constexpr std::int32_t kElementType<std::uint16_t> = 4;
template <>
inline constexpr std::int32_t kElementType<std::int16_t> = 5;
template <>
inline constexpr std::int32_t kElementType<std::int32_t> = 6;
template <>
inline constexpr std::int32_t kElementType<std::int64_t> = 7;
template <>
inline constexpr std::int32_t kElementType<std::string> = 8;
template <>
inline constexpr std::int32_t kElementType<bool> = 9;
template <>
inline constexpr std::int32_t kElementType<Float16> = 10;
template <>
inline constexpr std::int32_t kElementType<double> = 11;
template <>
inline constexpr std::int32_t kElementType<std::uint32_t> = 12;
template <>
inline constexpr std::int32_t kElementType<std::uint64_t> = 13;
template <>
inline constexpr std::int32_t kElementType<BFloat16> = 16;

}  // namespace opgraft
#pragma GCC visibility pop
