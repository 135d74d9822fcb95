// Numbers in the style of ONNX Runtime's tree: 16-bit floats, checked conversions and arithmetic,
// and the names of gsl that its kernels use.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "opgraft/contrib/status.h"
#include "opgraft/element.h"

#pragma GCC visibility push(hidden)
namespace onnxruntime {
namespace contrib_internal {

/// The common part of MLFloat16 and BFloat16. `Value` converts; `Half` is the derived class.
template <class Half, class Value, std::uint16_t kInfinityBits>
class HalfFloat {
 public:
  std::uint16_t val = 0;

  float ToFloat() const noexcept { return static_cast<float>(Value::FromBits(val)); }
  // NOLINTNEXTLINE(google-explicit-constructor): as in the runtime
  operator float() const noexcept { return ToFloat(); }

  bool IsNegative() const noexcept { return (val & 0x8000U) != 0; }
  bool IsNaN() const noexcept { return Magnitude() > kInfinityBits; }
  bool IsFinite() const noexcept { return Magnitude() < kInfinityBits; }
  bool IsInfinity() const noexcept { return Magnitude() == kInfinityBits; }
  bool IsPositiveInfinity() const noexcept { return val == kInfinityBits; }
  bool IsNegativeInfinity() const noexcept { return val == (kInfinityBits | 0x8000U); }
  Half Abs() const noexcept { return Half::FromBits(Magnitude()); }
  Half Negate() const noexcept { return Half::FromBits(static_cast<std::uint16_t>(val ^ 0x8000U)); }

  friend bool operator==(const Half& a, const Half& b) { return a.ToFloat() == b.ToFloat(); }
  friend bool operator<(const Half& a, const Half& b) { return a.ToFloat() < b.ToFloat(); }

 private:
  friend Half;
  HalfFloat() = default;
  std::uint16_t Magnitude() const { return static_cast<std::uint16_t>(val & 0x7fffU); }
};

}  // namespace contrib_internal

struct MLFloat16 : contrib_internal::HalfFloat<MLFloat16, opgraft::Float16, 0x7c00> {
  MLFloat16() = default;
  explicit MLFloat16(float value) noexcept { val = opgraft::Float16(value).bits(); }
  static MLFloat16 FromBits(std::uint16_t bits) noexcept {
    MLFloat16 made;
    made.val = bits;
    return made;
  }
};

struct BFloat16 : contrib_internal::HalfFloat<BFloat16, opgraft::BFloat16, 0x7f80> {
  BFloat16() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as in the runtime
  BFloat16(float value) noexcept { val = opgraft::BFloat16(value).bits(); }
  static BFloat16 FromBits(std::uint16_t bits) noexcept {
    BFloat16 made;
    made.val = bits;
    return made;
  }
};

/// Converts a number; throws if its value would change.
template <class To, class From>
constexpr To narrow(From value) {
  const auto converted = static_cast<To>(value);
  const bool is_same =
      static_cast<From>(converted) == value &&
      (std::is_signed_v<From> == std::is_signed_v<To> || (converted < To{}) == (value < From{}));
  if (!is_same) ORT_THROW("narrowing error: ", value, " does not fit");
  return converted;
}

/// Returns the position of an axis; -1 is the last axis.
inline std::int64_t HandleNegativeAxis(std::int64_t axis, std::int64_t rank) {
  ORT_ENFORCE(axis >= -rank && axis <= rank - 1, "axis ", axis, " is not in valid range [-", rank,
              ",", rank - 1, "]");
  return axis < 0 ? axis + rank : axis;
}

}  // namespace onnxruntime

/// An integer whose arithmetic throws instead of overflowing.
template <std::integral T>
class SafeInt {
 public:
  SafeInt() = default;
  template <std::integral From>
  SafeInt(From value) : value_(onnxruntime::narrow<T>(value)) {}  // NOLINT: as in the runtime
  template <std::integral From>
    requires(!std::is_same_v<From, T>)
  SafeInt(SafeInt<From> other) : SafeInt(From(other)) {}  // NOLINT: as in the runtime

  operator T() const { return value_; }  // NOLINT(google-explicit-constructor)
  template <std::integral To>
    requires(!std::is_same_v<To, T>)
  operator To() const {  // NOLINT(google-explicit-constructor)
    return onnxruntime::narrow<To>(value_);
  }

  template <class Other>
  friend SafeInt operator+(SafeInt a, Other b) {
    return Checked(a, b, [](T x, T y, T* z) { return __builtin_add_overflow(x, y, z); });
  }
  template <class Other>
  friend SafeInt operator-(SafeInt a, Other b) {
    return Checked(a, b, [](T x, T y, T* z) { return __builtin_sub_overflow(x, y, z); });
  }
  template <class Other>
  friend SafeInt operator*(SafeInt a, Other b) {
    return Checked(a, b, [](T x, T y, T* z) { return __builtin_mul_overflow(x, y, z); });
  }
  template <class Other>
  friend SafeInt operator/(SafeInt a, Other b) {
    return Checked(a, b, [](T x, T y, T* z) {
      if (y == 0) return true;
      if constexpr (std::is_signed_v<T>) {
        if (x == std::numeric_limits<T>::min() && y == -1) return true;
      }
      *z = static_cast<T>(x / y);
      return false;
    });
  }
  template <std::integral Other>
    requires(!std::is_same_v<Other, SafeInt>)
  friend SafeInt operator+(Other a, SafeInt b) {
    return SafeInt(a) + b;
  }
  template <std::integral Other>
  friend SafeInt operator-(Other a, SafeInt b) {
    return SafeInt(a) - b;
  }
  template <std::integral Other>
  friend SafeInt operator*(Other a, SafeInt b) {
    return SafeInt(a) * b;
  }
  template <class Other>
  SafeInt& operator+=(Other b) {
    return *this = *this + b;
  }
  template <class Other>
  SafeInt& operator-=(Other b) {
    return *this = *this - b;
  }
  template <class Other>
  SafeInt& operator*=(Other b) {
    return *this = *this * b;
  }

 private:
  template <class Other, class Operation>
  static SafeInt Checked(SafeInt a, Other b, const Operation& operation) {
    SafeInt result;
    if (operation(a.value_, SafeInt(b).value_, &result.value_)) ORT_THROW("Integer overflow");
    return result;
  }

  T value_ = 0;
};

namespace gsl {

using std::span;

template <class To, class From>
constexpr To narrow(From value) {
  return onnxruntime::narrow<To>(value);
}
template <class To, class From>
constexpr To narrow_cast(From value) noexcept {
  return static_cast<To>(value);
}
template <class Range>
constexpr auto make_span(Range& range) {
  return std::span(range);
}
template <class T>
constexpr std::span<T> make_span(T* first, std::size_t count) {
  return {first, count};
}
template <class T>
constexpr std::span<T> make_span(T* first, T* last) {
  return {first, last};
}

}  // namespace gsl

namespace opgraft {

template <>
inline constexpr std::int32_t kElementType<onnxruntime::MLFloat16> = kElementType<Float16>;
template <>
inline constexpr std::int32_t kElementType<onnxruntime::BFloat16> = kElementType<BFloat16>;

}  // namespace opgraft
#pragma GCC visibility pop
