// Tests of the checks for calls that would not end.
#include <gtest/gtest.h>

#include <limits>

#include "aten/guard_arguments_test.h"

namespace opgraft::aten {
namespace {

constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

TEST(GuardsCountsTest, PowersAndCounts) {
  const auto pass = [](const char* op, const char* name, std::int64_t number) {
    return Arguments().AddShape("self", {2, 2}).Add(name, number).Pass(op);
  };
  for (const std::int64_t power : {-1000, 0, 5, 1 << 30}) {
    EXPECT_TRUE(pass("matrix_power", "n", power));
  }
  for (const std::int64_t power : {kSmallest, kSmallest + 1, std::int64_t{1} << 31U}) {
    EXPECT_FALSE(pass("linalg_matrix_power", "n", power));
  }
  EXPECT_TRUE(pass("diff", "n", 3));
  EXPECT_FALSE(pass("diff", "n", 1025));
  EXPECT_TRUE(pass("combinations", "r", 64));
  EXPECT_FALSE(pass("combinations", "r", 65));
  EXPECT_TRUE(pass("mvlgamma", "p", 100));
  EXPECT_FALSE(pass("special_multigammaln", "p", (1 << 20) + 1));
}

TEST(GuardsCountsTest, PaddingThatPoolsStepThrough) {
  const auto pass = [](std::vector<std::int64_t> padding) {
    return Arguments()
        .AddShape("self", {1, 1, 5, 7})
        .AddNumbers("padding", padding)
        .Pass("max_pool2d");
  };
  EXPECT_TRUE(pass({6, 6}));
  EXPECT_TRUE(pass({1029, 1031}));
  EXPECT_FALSE(pass({1030, 0}));
  EXPECT_FALSE(pass({0, 1032}));
}

TEST(GuardsCountsTest, NoMoreTensorsThanTheNodeDeclares) {
  const auto pass = [](const char* op, const char* name, std::int64_t number, std::size_t declared,
                       std::int64_t size) {
    return Arguments().AddShape("self", {size}).Add(name, number).Say(declared).Pass(op);
  };
  EXPECT_TRUE(pass("chunk", "chunks", 4, 3, 5));
  EXPECT_TRUE(pass("chunk", "chunks", std::numeric_limits<std::int64_t>::max(), 5, 5));
  EXPECT_FALSE(pass("chunk", "chunks", 5, 4, 5));
  EXPECT_TRUE(pass("chunk", "chunks", 4, 4, 0));
  EXPECT_FALSE(pass("chunk", "chunks", 5, 4, 0));
  EXPECT_TRUE(pass("tensor_split", "sections", 3, 3, 2));
  EXPECT_FALSE(pass("tensor_split", "sections", 4, 3, 2));
  EXPECT_TRUE(pass("split", "split_size", 2, 3, 5));
  EXPECT_FALSE(pass("split", "split_size", 2, 2, 5));
  EXPECT_TRUE(pass("unbind", "dim", -1, 5, 5));
  EXPECT_FALSE(pass("unbind", "dim", 0, 4, 5));
  EXPECT_FALSE(Arguments()
                   .AddShape("self", {2})
                   .Add("tensor_indices_or_sections", {}, {4})
                   .Say(3)
                   .Pass("tensor_split"));
}

TEST(GuardsCountsTest, StepsOfZetaAndOfPolynomials) {
  const auto zeta = [](double number, std::vector<std::int64_t> shape) {
    return Arguments()
        .AddShape("self", shape)
        .AddReals("other", {1}, {number})
        .Pass("special_zeta");
  };
  EXPECT_TRUE(zeta(-5.5, {1000, 1000}));
  EXPECT_TRUE(zeta(-1e15, {1}));  // a pole
  EXPECT_TRUE(zeta(-1e6 - 0.5, {1}));
  EXPECT_FALSE(zeta(-1e6 - 0.5, {1000}));
  EXPECT_FALSE(zeta(-1e15 + 0.5, {1}));
  EXPECT_TRUE(zeta(std::numeric_limits<double>::quiet_NaN(), {1}));
  const auto gamma = [](std::int64_t order) {
    return Arguments().Add("n", order).AddReals("self", {1}, {-1e15 + 0.5}).Pass("polygamma");
  };
  EXPECT_TRUE(gamma(1));
  EXPECT_FALSE(gamma(2));
  const auto polynomial = [](double degree, std::vector<std::int64_t> shape) {
    return Arguments()
        .AddShape("x", shape)
        .AddReal("n", degree)
        .Pass("special_legendre_polynomial_p");
  };
  EXPECT_TRUE(polynomial(1000, {100000}));
  EXPECT_TRUE(polynomial(1e6, {100}));
  EXPECT_FALSE(polynomial(1e6, {1000}));
  EXPECT_FALSE(polynomial(std::numeric_limits<double>::infinity(), {1}));
}

TEST(GuardsCountsTest, ShapesOfAllInputs) {
  const auto pass = [](std::vector<std::int64_t> shape) {
    InputTensor input;
    input.shape = shape;
    return CheckShape(input).empty();
  };
  EXPECT_TRUE(pass({}));
  EXPECT_TRUE(pass({1 << 20, 0}));
  EXPECT_FALSE(pass({1 << 20, 0, 2}));
  EXPECT_FALSE(pass({std::int64_t{1} << 62U, 0, 8}));
  EXPECT_TRUE(pass({std::int64_t{1} << 40U, 8}));
  EXPECT_TRUE(pass(std::vector<std::int64_t>(64, 1)));
  EXPECT_FALSE(pass(std::vector<std::int64_t>(65, 1)));
}

}  // namespace
}  // namespace opgraft::aten
