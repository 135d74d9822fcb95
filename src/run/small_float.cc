// One function reads all formats, which differ in the widths of their fields and in their special
// values.
#include "run/small_float.h"

#include <cmath>
#include <iterator>

namespace opgraft::run {
namespace {

enum class Special : std::uint8_t {
  kIeee,          // the highest exponent is for infinities and NaN
  kAllOnesIsNan,  // no infinities; NaN if all bits except the sign are set
  kMinusZero,     // no infinities; NaN has the bits of -0, which does not exist
  kNone,
};

struct FloatFormat {
  std::int64_t element_type;
  int exponent_bits;
  int fraction_bits;
  int bias;
  Special special;
};

constexpr FloatFormat kFormats[] = {
    {10, 5, 10, 15, Special::kIeee},        // float16
    {16, 8, 7, 127, Special::kIeee},        // bfloat16
    {17, 4, 3, 7, Special::kAllOnesIsNan},  // float8_e4m3fn
    {18, 4, 3, 8, Special::kMinusZero},     // float8_e4m3fnuz
    {19, 5, 2, 15, Special::kIeee},         // float8_e5m2
    {20, 5, 2, 16, Special::kMinusZero},    // float8_e5m2fnuz
    {23, 2, 1, 1, Special::kNone},          // float4_e2m1fn
};

const FloatFormat* FindFormat(std::int64_t element_type) {
  for (const FloatFormat& format : kFormats) {
    if (format.element_type == element_type) return &format;
  }
  return nullptr;
}

}  // namespace

bool IsSmallFloat(std::int64_t element_type) { return FindFormat(element_type) != nullptr; }

double SmallFloat(std::int64_t element_type, std::uint32_t bits) {
  const FloatFormat& format = *FindFormat(element_type);
  const int highest = (1 << format.exponent_bits) - 1;
  const int exponent =
      static_cast<int>(bits >> static_cast<unsigned>(format.fraction_bits)) & highest;
  const int one = 1 << format.fraction_bits;
  const int fraction = static_cast<int>(bits) & (one - 1);
  const bool is_negative =
      ((bits >> static_cast<unsigned>(format.exponent_bits + format.fraction_bits)) & 1U) != 0;
  const double sign = is_negative ? -1 : 1;
  if (format.special == Special::kIeee && exponent == highest) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  if (format.special == Special::kAllOnesIsNan && exponent == highest && fraction == one - 1) {
    return NAN;
  }
  if (format.special == Special::kMinusZero && is_negative && exponent == 0 && fraction == 0) {
    return NAN;
  }
  const int scale = 1 - format.bias - format.fraction_bits;
  if (exponent == 0) return sign * std::ldexp(fraction, scale);
  return sign * std::ldexp(one + fraction, exponent - 1 + scale);
}

}  // namespace opgraft::run
