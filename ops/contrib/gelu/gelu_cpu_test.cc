// Tests Gelu in every instruction set of this machine against the formula in long double.
#include "ops/contrib/gelu/gelu_cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace opgraft::contrib {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Uses erfc, which does not cancel for negative x.
long double Reference(long double x) {
  if (std::isinf(x)) return x > 0 ? x : -0.0L;
  return 0.5L * x * std::erfc(-x * 0.707106781186547524400844362104849039L);
}

/// Returns the error of y in units of the last place of a float.
double ErrorInLastPlaces(float y, long double right) {
  const int exponent = std::max(std::ilogb(static_cast<float>(right)), -126);
  return static_cast<double>(std::abs(y - right) / std::scalbn(1.0L, exponent - 23));
}

double Float16Value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 0x3ff;
  double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -value : value;
}

double BFloat16Value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

class GeluTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > BestInstructionSet()) GTEST_SKIP() << "not on this processor";
  }

  std::vector<float> Compute(const std::vector<float>& x) {
    std::vector<float> y(x.size());
    Gelu(x.data(), y.data(), x.size(), GetParam());
    return y;
  }
};

std::string NameOf(const testing::TestParamInfo<InstructionSet>& info) {
  constexpr const char* kNames[] = {"Baseline", "Avx2", "Avx512"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, GeluTest,
                         testing::Values(InstructionSet::kBaseline, InstructionSet::kAvx2,
                                         InstructionSet::kAvx512),
                         NameOf);

// Every 997th float from -14.5 to 100, with the bounds that README.md states.
TEST_P(GeluTest, IsAccurateRelativeToTheResult) {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(100.0F); bits += 997) {
    const float value = std::bit_cast<float>(bits);
    x.push_back(value);
    if (value < 14.5F) x.push_back(-value);
  }
  const std::vector<float> y = Compute(x);
  struct {
    double worst = 0;
    double sum = 0;
    int count = 0;
    double Mean() const { return sum / count; }
  } positive, near, negative;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ErrorInLastPlaces(y[i], Reference(x[i]));
    auto& range = x[i] >= 0 ? positive : x[i] > -1 ? near : negative;
    range.worst = std::max(range.worst, error);
    range.sum += error;
    ++range.count;
  }
  // The baseline has no fused multiply-add, so it also rounds products.
  const bool fused = GetParam() != InstructionSet::kBaseline;
  EXPECT_LT(positive.worst, fused ? 1.25 : 1.5);
  EXPECT_LT(near.worst, fused ? 2.4 : 3);
  EXPECT_LT(negative.worst, fused ? 6 : 7.5);
  EXPECT_LT(negative.Mean(), fused ? 0.86 : 1);
}

TEST_P(GeluTest, IsAccurateInAbsoluteTerms) {
  std::vector<float> x;
  for (int i = -200'000; i <= 200'000; ++i) x.push_back(static_cast<float>(i) * 2e-5F);
  const std::vector<float> y = Compute(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(y[i], static_cast<double>(Reference(x[i])), 2.4e-7) << x[i];
  }
}

// Values around the boundaries of the formulas, and where the result vanishes.
TEST_P(GeluTest, HasNoStepBetweenItsFormulas) {
  for (const float centre : {-1.0F, 1.0F, -14.5F, 14.5F, -14.2F}) {
    std::vector<float> x = {centre};
    for (int i = 0; i < 1000; ++i) x.push_back(std::nextafter(x.back(), kInfinity));
    x.push_back(centre);
    for (int i = 0; i < 1000; ++i) x.push_back(std::nextafter(x.back(), -kInfinity));
    const std::vector<float> y = Compute(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LT(ErrorInLastPlaces(y[i], Reference(x[i])), 6) << x[i];
    }
  }
}

TEST_P(GeluTest, KnowsSpecialValues) {
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> y =
      Compute({0.0F, -0.0F, kInfinity, -kInfinity, kNaN, -kNaN, kLargest, -kLargest, 4 * kSmallest,
               -4 * kSmallest, -20.0F, 20.0F, 1e-30F, -1e-30F, 1.0F, -1.0F, kNaN});
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[0]), 0U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[1]), 0x80000000U);
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[3]), 0x80000000U);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_EQ(y[6], kLargest);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[7]), 0x80000000U);
  EXPECT_EQ(y[8], 2 * kSmallest);
  EXPECT_EQ(y[9], -2 * kSmallest);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[10]), 0x80000000U);
  EXPECT_EQ(y[11], 20.0F);
  EXPECT_EQ(y[12], 0.5e-30F);
  EXPECT_EQ(y[13], -0.5e-30F);
  EXPECT_FLOAT_EQ(y[14], 0.84134475F);
  EXPECT_FLOAT_EQ(y[15], -0.15865525F);
  EXPECT_TRUE(std::isnan(y[16]));
}

// A NaN or an infinity in any lane does not affect the others.
TEST_P(GeluTest, KeepsLanesApart) {
  for (std::size_t at = 0; at < 40; ++at) {
    for (const float strange : {kNaN, kInfinity, -kInfinity}) {
      std::vector<float> x(40, -0.5F);
      x[at] = strange;
      const std::vector<float> y = Compute(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i == at) continue;
        ASSERT_FLOAT_EQ(y[i], -0.1542687694F) << i << " beside " << at;
      }
    }
  }
}

/// Computes `count` elements at an odd address, to other memory and in place, and checks that the
/// memory around is unchanged. The result of an element must not depend on the others.
template <typename T, typename Function>
void TestCountsAndAddresses(Function compute, const std::vector<T>& values) {
  constexpr std::size_t kAround = 80;
  for (const std::size_t count :
       {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 65, 97}) {
    std::vector<T> right(count);
    for (std::size_t i = 0; i < count; ++i) compute(&values[i], &right[i], 1);
    for (const std::size_t offset : {0, 1, 2, 3, 4, 13}) {
      const std::size_t bytes = count * sizeof(T);
      std::vector<unsigned char> x(bytes + 2 * kAround, 0xa5);
      std::vector<unsigned char> y(bytes + 2 * kAround, 0xa5);
      unsigned char* const from = x.data() + kAround + offset;
      unsigned char* const to = y.data() + kAround + (offset * 7 % 16);
      if (count != 0) std::memcpy(from, values.data(), bytes);
      const std::vector<unsigned char> before = x;
      compute(reinterpret_cast<T*>(from), reinterpret_cast<T*>(to), count);
      EXPECT_EQ(x, before);
      compute(reinterpret_cast<T*>(from), reinterpret_cast<T*>(from), count);
      for (const auto& [memory, start] : {std::pair(&x, from), std::pair(&y, to)}) {
        if (count != 0) {
          ASSERT_EQ(std::memcmp(start, right.data(), bytes), 0) << count << " at " << offset;
        }
        for (unsigned char& byte : *memory) {
          if (&byte < start || &byte >= start + bytes) {
            ASSERT_EQ(byte, 0xa5) << count << " at " << offset << ": writes outside";
          }
        }
      }
    }
  }
}

TEST_P(GeluTest, TakesAnyCountAndAddress) {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i) values.push_back(static_cast<float>(i - 50) * 0.17F);
  TestCountsAndAddresses<float>(
      [](const float* x, float* y, std::size_t count) { Gelu(x, y, count, GetParam()); }, values);
  std::vector<std::uint16_t> halves;
  for (int i = 0; i < 100; ++i) halves.push_back(static_cast<std::uint16_t>(i * 655));
  TestCountsAndAddresses<std::uint16_t>(
      [](const std::uint16_t* x, std::uint16_t* y, std::size_t count) {
        GeluFloat16(x, y, count, GetParam());
      },
      halves);
  TestCountsAndAddresses<std::uint16_t>(
      [](const std::uint16_t* x, std::uint16_t* y, std::size_t count) {
        GeluBFloat16(x, y, count, GetParam());
      },
      halves);
}

/// Computes all values of the type. Each result must be the nearest value, except if the exact one
/// is so close to the middle of two values that float's precision cannot decide.
void TestAllOfSixteenBits(void (*compute)(const std::uint16_t*, std::uint16_t*, std::size_t,
                                          InstructionSet),
                          double (*value)(std::uint16_t), InstructionSet instructions) {
  std::vector<std::uint16_t> x(65536);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> y(x.size());
  compute(x.data(), y.data(), x.size(), instructions);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double in = value(x[i]);
    const double out = value(y[i]);
    if (std::isnan(in)) {
      ASSERT_TRUE(std::isnan(out)) << i;
      continue;
    }
    const auto right = static_cast<double>(Reference(in));
    ASSERT_EQ(std::signbit(out), std::signbit(in)) << in;
    if (std::isinf(right)) {
      ASSERT_EQ(out, right) << in;
      continue;
    }
    ASSERT_TRUE(std::isfinite(out)) << in;
    // Neither neighbour of the result may be nearer, up to the precision of float.
    const double slack = std::abs(right) * 0x1p-20;
    for (const int step : {-1, 1}) {
      const double neighbour = value(static_cast<std::uint16_t>(y[i] + step));
      if (std::isnan(neighbour) || std::signbit(neighbour) != std::signbit(out)) continue;
      ASSERT_LE(std::abs(out - right), std::abs(neighbour - right) + slack) << in;
    }
  }
}

TEST_P(GeluTest, ComputesEachFloat16) {
  TestAllOfSixteenBits(GeluFloat16, Float16Value, GetParam());
}

TEST_P(GeluTest, ComputesEachBFloat16) {
  TestAllOfSixteenBits(GeluBFloat16, BFloat16Value, GetParam());
}

TEST_P(GeluTest, RoundsTiesToEven) {
  const std::vector<std::uint16_t> x = {1, 3, 5, 0x8001, 0x8003};  // times the smallest bfloat16
  std::vector<std::uint16_t> y(x.size());
  GeluBFloat16(x.data(), y.data(), x.size(), GetParam());
  EXPECT_EQ(y, (std::vector<std::uint16_t>{0, 2, 2, 0x8000, 0x8002}));
}

TEST(GeluOfDoubleTest, IsAccurate) {
  for (double x = -37; x < 40; x += 0.00137) {
    double y = 0;
    Gelu(&x, &y, 1);
    const long double right = Reference(x);
    ASSERT_LT(std::abs(y - right), std::abs(right) * 8e-16L) << x;
  }
}

TEST(GeluOfDoubleTest, KnowsSpecialValues) {
  const double x[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e300, -1e300, 1e-300, -1e-300};
  double y[std::size(x)] = {};
  Gelu(x, y, std::size(x));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(y[0]), 0U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(y[1]), std::uint64_t{1} << 63);
  EXPECT_EQ(y[2], INFINITY);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(y[3]), std::uint64_t{1} << 63);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], 1e300);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(y[6]), std::uint64_t{1} << 63);
  EXPECT_EQ(y[7], 0.5e-300);
  EXPECT_EQ(y[8], -0.5e-300);
}

}  // namespace
}  // namespace opgraft::contrib
