// Tests every float16 and bfloat16, and floats around each of them, against exact arithmetic.
#include "opgraft/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace opgraft {
namespace {

/// Returns the value of a 16-bit float with so many fraction bits, by the definition.
double Value(std::uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/// Expects that the conversion gives the nearest number, and the even one of two equally near, by
/// comparing with both neighbours.
template <class Small>
void ExpectNearest(float value, int fraction_bits) {
  const Small made(value);
  const double exact = value;
  const double mine = Value(made.bits(), fraction_bits);
  const auto infinity = static_cast<std::uint16_t>(0x7fffU & (0xffffU << fraction_bits));
  const auto magnitude = static_cast<std::uint16_t>(made.bits() & 0x7fffU);
  ASSERT_EQ(made.bits() & 0x8000U, std::bit_cast<std::uint32_t>(value) >> 16U & 0x8000U) << value;
  if (magnitude == infinity) {
    // Infinity begins halfway between the largest number and the one that would follow it.
    const double largest = Value(static_cast<std::uint16_t>(infinity - 1), fraction_bits);
    const double before = Value(static_cast<std::uint16_t>(infinity - 2), fraction_bits);
    ASSERT_GE(std::abs(exact), largest + (largest - before) / 2) << value;
    return;
  }
  const double error = std::abs(exact - mine);
  for (const int step : {-1, 1}) {
    if (magnitude == 0 && step < 0) continue;
    const auto other = static_cast<std::uint16_t>(magnitude + step);
    if (other == infinity) continue;
    const double apart = std::abs(std::abs(exact) - Value(other, fraction_bits));
    ASSERT_TRUE(error < apart || (error == apart && made.bits() % 2 == 0)) << value;
  }
}

template <class Small>
void TestAll(int fraction_bits) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(Small::FromBits(half));
    const double expected = Value(half, fraction_bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_TRUE(std::isnan(static_cast<float>(Small(value))));
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(Small(value).bits(), half);
    if (std::isinf(value)) continue;
    // The number itself, the middle between it and the next, and the floats next to each.
    const auto next = static_cast<float>(Small::FromBits(static_cast<std::uint16_t>(half + 1)));
    if (std::isnan(next)) continue;
    const double end = std::isinf(next) ? 2 * expected - Value(half - 1U, fraction_bits) : next;
    const auto middle = static_cast<float>((expected + end) / 2);
    for (const float at : {value, middle}) {
      const auto infinity = std::numeric_limits<float>::infinity();
      for (const float one : {std::nextafter(at, -infinity), at, std::nextafter(at, infinity)}) {
        if (std::isinf(one)) continue;
        ExpectNearest<Small>(one, fraction_bits);
      }
    }
  }
}

TEST(Float16, EveryValueAndItsNeighbours) { TestAll<Float16>(10); }
TEST(BFloat16, EveryValueAndItsNeighbours) { TestAll<BFloat16>(7); }

TEST(Float16, Extremes) {
  EXPECT_EQ(Float16(65504.0F).bits(), 0x7bff);
  EXPECT_EQ(Float16(65519.0F).bits(), 0x7bff);
  EXPECT_EQ(Float16(65520.0F).bits(), 0x7c00);
  EXPECT_EQ(Float16(-1e30F).bits(), 0xfc00);
  EXPECT_EQ(Float16(-0.0F).bits(), 0x8000);
  EXPECT_EQ(Float16(1e-30F).bits(), 0);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits(), 0x7f80);
}

TEST(Float16, CalculatesWithOtherNumbers) {
  const Float16 two = 2;
  EXPECT_EQ(two * two + 1, 5);
  EXPECT_EQ(BFloat16(3) / 2, 1.5F);
}

}  // namespace
}  // namespace opgraft
