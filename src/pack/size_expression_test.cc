// Tests of size expressions: written and read back, and compared with plain arithmetic.
#include "opgraft/size_expression.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace opgraft::internal {
namespace {

using Result = std::optional<std::int64_t>;
using NumbersOfNames = std::map<std::string, std::int64_t, std::less<>>;

std::int64_t Floor(std::int64_t a, std::int64_t b) {
  std::int64_t quotient = a / b;
  while (b > 0 ? quotient * b > a : quotient * b < a) --quotient;
  return quotient;
}

/// The arithmetic for EvaluateSize, written independently of the code under test.
struct PlainArithmetic {
  const NumbersOfNames& numbers;

  Result Find(std::string_view name) const {
    const auto found = numbers.find(name);
    return found != numbers.end() ? Result(found->second) : std::nullopt;
  }
  Result Number(std::int64_t number) const { return number; }
  Result Calculate(char sign, std::int64_t a, std::int64_t b) const {
    switch (sign) {
      case '+': return a + b;
      case '-': return a - b;
      case '*': return a * b;
      default: break;
    }
    if (b == 0) return std::nullopt;
    return sign == '/' ? Floor(a, b) : a - b * Floor(a, b);
  }
};

/// An expression, and the same calculation as a function of the numbers that names stand for.
struct Twins {
  SizeExpression expression;
  std::function<Result(const PlainArithmetic&)> function;
};

Twins MakeTwins(std::mt19937* random, int depth) {
  const auto pick = [&](std::uint32_t count) { return (*random)() % count; };
  if (depth == 0 || pick(5) == 0) {
    if (pick(3) == 0) {
      const std::int64_t number = static_cast<std::int64_t>(pick(9)) - 2;
      return {number, [number](const PlainArithmetic&) { return Result(number); }};
    }
    const std::string name = pick(2) == 0 ? "n" : "m";
    return {SizeExpression::Named(name),
            [name](const PlainArithmetic& plain) { return plain.Find(name); }};
  }
  const Twins a = MakeTwins(random, depth - 1);
  const Twins b = MakeTwins(random, depth - 1);
  const char sign = "+-*//%%"[pick(7)];
  const SizeExpression joined = sign == '+'   ? a.expression + b.expression
                                : sign == '-' ? a.expression - b.expression
                                : sign == '*' ? a.expression * b.expression
                                : sign == '/' ? a.expression / b.expression
                                              : a.expression % b.expression;
  return {joined, [=](const PlainArithmetic& plain) -> Result {
            const Result left = a.function(plain);
            const Result right = b.function(plain);
            return left && right ? plain.Calculate(sign, *left, *right) : std::nullopt;
          }};
}

TEST(SizeExpression, EvaluatesToTheSameAfterReadingBack) {
  std::mt19937 random(20261116);
  int compared = 0;
  for (int i = 0; i < 600; ++i) {
    const Twins twins = MakeTwins(&random, 3);
    const std::string text = twins.expression.Text();
    for (const auto& [n, m] : {std::pair(2, 3), {4, 1}, {5, 7}, {12, 5}, {1, 1}, {0, 4}}) {
      const NumbersOfNames numbers = {{"n", n}, {"m", m}};
      const PlainArithmetic plain = {numbers};
      const Result right = twins.function(plain);
      if (!right) continue;  // a division by zero, which simplification may have removed
      ++compared;
      EXPECT_EQ(EvaluateSize<std::int64_t>(text, plain), right) << text << " of " << n << ", " << m;
      EXPECT_EQ(twins.expression.Evaluate<std::int64_t>(plain), right) << text;
    }
  }
  EXPECT_GT(compared, 2000);
}

const SizeExpression n = SizeExpression::Named("n");
const SizeExpression m = SizeExpression::Named("m");

TEST(SizeExpression, HasTheParenthesesThatItNeeds) {
  EXPECT_EQ((n / 3).Text(), "n//3");
  EXPECT_EQ((n / 3 * 2).Text(), "2*(n//3)");
  EXPECT_EQ((n % 3 * n).Text(), "n*(n%3)");
  EXPECT_EQ((n / 3 + m).Text(), "m + n//3");
  EXPECT_EQ((m - n / 3).Text(), "m - (n//3)");
  EXPECT_EQ((n / 3 * -1).Text(), "-(n//3)");  // Python reads -n//3 as (-n)//3
  EXPECT_EQ((n / 3 / m).Text(), "(n//3)//m");
  EXPECT_EQ((n / (m / 3)).Text(), "n//(m//3)");
  EXPECT_EQ(((n + 1) / -2).Text(), "(n + 1)//(-2)");
  EXPECT_EQ((SizeExpression(5) % n).Text(), "5%n");
}

TEST(SizeExpression, ANameMayBeAnyText) {
  const SizeExpression sum = SizeExpression::Named("n + 1");
  EXPECT_EQ(sum.Text(), "n + 1");
  EXPECT_EQ((sum * 2).Text(), "2*(n + 1)");
  EXPECT_NE((sum * 2).Text(), (n * 2 + 1).Text());
  EXPECT_EQ((sum / 2).Text(), "(n + 1)//2");
  EXPECT_FALSE(sum / 2 == (n + 1) / 2);
  EXPECT_FALSE(SizeExpression::Named("n//2") == n / 2);
  EXPECT_EQ((SizeExpression::Named("2") * n).Text(), "(2)*n");
  EXPECT_EQ((n / 2 - SizeExpression::Named("n//2")).number(), std::nullopt);
}

TEST(SizeExpression, AQuotientIsNotAName) {
  EXPECT_TRUE(n.IsName());
  EXPECT_FALSE((n / 3).IsName());
  EXPECT_FALSE((n % 3).IsName());
  EXPECT_TRUE(((n / 3 + m) - n / 3).IsName());
  EXPECT_EQ((n / (m + 1) * n).Names(), (std::vector<std::string>{"n", "n", "m"}));
  EXPECT_TRUE(n / 3 == (n + 0) / 3);
  EXPECT_EQ((n / 3 - n / 3).number(), 0);
}

TEST(SizeExpression, NumbersAreRoundedDown) {
  EXPECT_EQ((SizeExpression(-7) / 2).number(), -4);
  EXPECT_EQ((SizeExpression(-7) % 2).number(), 1);
  EXPECT_EQ((SizeExpression(7) % -2).number(), -1);
  EXPECT_EQ((SizeExpression(7) / 0).number(), std::nullopt);
  EXPECT_EQ(CalculateSize('/', INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(CalculateSize('%', INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(CalculateSize('*', INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(CalculateSize('/', INT64_MIN, 2), INT64_MIN / 2);
}

TEST(SizeExpression, QuotientsDoNotGrowWithoutLimit) {
  SizeExpression size = n;
  EXPECT_THROW(
      {
        for (int i = 0; i < 16; ++i) {
          size = size / (size / 3);
          ASSERT_LE(size.Text().size(), 1000U);
        }
      },
      std::overflow_error);
}

}  // namespace
}  // namespace opgraft::internal
