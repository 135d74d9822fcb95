// Tests of tolerances, differences and symbols.
#include "comparison.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace opgraft::op_test {
namespace {

template <class T>
std::string CompareOne(T expected, T got) {
  return Compare(TensorValue({1}, std::vector<T>{expected}), TensorValue({1}, std::vector<T>{got}),
                 DefaultTolerance(kElementType<T>));
}

TEST(Comparison, EachTypeHasItsTolerance) {
  EXPECT_EQ(CompareOne<float>(1, 1.00001F), "");
  EXPECT_NE(CompareOne<float>(1, 1.001F), "");
  EXPECT_EQ(CompareOne<Float16>(1, 1.001F), "");
  EXPECT_NE(CompareOne<Float16>(1, 1.01F), "");
  EXPECT_EQ(CompareOne<BFloat16>(1, 1.01F), "");
  EXPECT_NE(CompareOne<BFloat16>(1, 1.1F), "");
  EXPECT_EQ(CompareOne<double>(1, 1.000000001), "");
  EXPECT_NE(CompareOne<double>(1, 1.00001), "");
  EXPECT_NE(CompareOne<std::int64_t>(1000000, 1000001), "");
  EXPECT_NE(CompareOne<bool>(true, false), "");
}

TEST(Comparison, SpecialNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(CompareOne<float>(kNan, kNan), "");
  EXPECT_EQ(CompareOne<float>(kInfinity, kInfinity), "");
  EXPECT_EQ(CompareOne<float>(kInfinity, -kInfinity), "[0]: expected inf, got -inf");
  EXPECT_EQ(CompareOne<float>(0, kNan), "[0]: expected 0, got nan");
  EXPECT_EQ(CompareOne<float>(kNan, 0), "[0]: expected nan, got 0");
  EXPECT_EQ(CompareOne<float>(kInfinity, 3e38F), "[0]: expected inf, got 3e+38");
}

TEST(Comparison, ReportsTheFirstDifference) {
  const TensorValue expected({2, 2}, std::vector<std::string>{"a", "b", "c", "d"});
  const TensorValue got({2, 2}, std::vector<std::string>{"a", "b", "x", "y"});
  EXPECT_EQ(Compare(expected, got, {}),
            "[1, 0]: expected \"c\", got \"x\"; 2 of 4 elements differ");
}

TEST(Comparison, EvaluatesSymbols) {
  const Symbols symbols = {{"n", 3}, {"x-y", 5}};
  EXPECT_EQ(Evaluate("n", symbols), 3);
  EXPECT_EQ(Evaluate("x-y", symbols), 5);
  EXPECT_EQ(Evaluate("((n*2)+1)", symbols), 7);
  EXPECT_EQ(Evaluate("2 * n - 1", symbols), 5);
  EXPECT_EQ(Evaluate("n//2", symbols), 1);
  EXPECT_EQ(Evaluate("2*(n//2)", symbols), 2);
  // As Python does.
  EXPECT_EQ(Evaluate("(1 - n)//4", symbols), -1);
  EXPECT_EQ(Evaluate("(1 - n)%4", symbols), 2);
  EXPECT_EQ(Evaluate("n//(0 - 2)", symbols), -2);
  EXPECT_EQ(Evaluate("n%(0 - 2)", symbols), -1);
  for (const char* const malformed : {"", "m", "n+", "(n", "n)", "n/0", "n n", "2m"}) {
    EXPECT_EQ(Evaluate(malformed, symbols), std::nullopt) << malformed;
  }
  EXPECT_EQ(Evaluate(std::string(100000, '('), symbols), std::nullopt);
}

TEST(Comparison, UnknownSizesMayBeAnything) {
  const Symbols symbols = {{"n", 3}};
  using Dimensions = std::vector<OpTester::Dimension>;
  EXPECT_TRUE(Contains(std::nullopt, {3, 4}, symbols));
  EXPECT_TRUE(Contains(Dimensions{"n", "?"}, {3, 4}, symbols));
  EXPECT_TRUE(Contains(Dimensions{3, "m"}, {3, 4}, symbols));
  EXPECT_FALSE(Contains(Dimensions{"n", "n"}, {3, 4}, symbols));
  EXPECT_FALSE(Contains(Dimensions{3, 5}, {3, 4}, symbols));
  EXPECT_FALSE(Contains(Dimensions{3}, {3, 4}, symbols));
}

}  // namespace
}  // namespace opgraft::op_test
