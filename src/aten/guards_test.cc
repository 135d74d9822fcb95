// Tests of the checks that operators do not make themselves.
#include <gtest/gtest.h>

#include <limits>

#include "aten/guard_arguments_test.h"

namespace opgraft::aten {
namespace {

TEST(GuardsTest, OperatorsWithoutAGuard) {
  EXPECT_EQ(FindGuard("lgamma"), nullptr);
  EXPECT_EQ(FindGuard(""), nullptr);
  EXPECT_TRUE(IsSize("kernel_size"));
  EXPECT_FALSE(IsSize("end"));
}

TEST(GuardsTest, LabelsOfCtcLoss) {
  const auto pass = [](std::int64_t label, std::int64_t blank) {
    return Arguments()
        .Add("log_probs", {5, 1, 4}, {})
        .Add("targets", {1, 2}, {1, label})
        .Add("blank", blank)
        .Pass("ctc_loss");
  };
  EXPECT_TRUE(pass(3, 0));
  EXPECT_FALSE(pass(4, 0));
  EXPECT_FALSE(pass(-1, 0));
  EXPECT_FALSE(pass(3, 4));
}

TEST(GuardsTest, StatisticsOfBatchNorm) {
  EXPECT_FALSE(Arguments().Add("input", {2, 3}, {}).Add("training", 0).Pass("batch_norm"));
  EXPECT_TRUE(Arguments().Add("input", {2, 3}, {}).Add("training", 1).Pass("batch_norm"));
  const auto pass = [](std::int64_t size) {
    return Arguments()
        .Add("input", {2, 3}, {})
        .Add("training", 0)
        .Add("running_mean", {size}, {})
        .Add("running_var", {3}, {})
        .Pass("batch_norm");
  };
  EXPECT_TRUE(pass(3));
  EXPECT_FALSE(pass(0));
}

TEST(GuardsTest, PivotsOfLu) {
  const auto pass = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> pivots) {
    return Arguments()
        .Add("LU_data", {2, 3, 4}, {})
        .Add("LU_pivots", std::move(shape), std::move(pivots))
        .Pass("lu_unpack");
  };
  EXPECT_TRUE(pass({2, 3}, {1, 2, 3, 3, 3, 3}));
  EXPECT_FALSE(pass({2, 3}, {1, 2, 3, 3, 3, 4}));
  EXPECT_FALSE(pass({2, 3}, {0, 2, 3, 3, 3, 3}));
  EXPECT_FALSE(pass({2, 0}, {}));
  EXPECT_FALSE(pass({1, 3}, {1, 2, 3}));
  EXPECT_FALSE(pass({}, {1}));
}

TEST(GuardsTest, SmallestNumbers) {
  const auto pass = [](std::int64_t number) {
    return Arguments().Add("self", {1}, {number}).Add("other", {1}, {3}).Pass("lcm");
  };
  EXPECT_TRUE(pass(-5));
  EXPECT_FALSE(pass(std::numeric_limits<std::int64_t>::min()));
}

TEST(GuardsTest, Segments) {
  const auto pass = [](const char* name, std::vector<std::int64_t> numbers, std::int64_t axis) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    return Arguments()
        .Add("data", {5, 2}, {})
        .Add(name, {count}, std::move(numbers))
        .Add("axis", axis)
        .Pass("segment_reduce");
  };
  EXPECT_TRUE(pass("lengths", {2, 3}, 0));
  EXPECT_FALSE(pass("lengths", {2, 4}, 0));
  EXPECT_FALSE(pass("lengths", {-1, 6}, 0));
  EXPECT_FALSE(pass("lengths", {2, 3}, 2));
  EXPECT_FALSE(pass("lengths", {2, 3}, 1));
  EXPECT_TRUE(pass("offsets", {0, 2, 5}, 0));
  EXPECT_FALSE(pass("offsets", {0, 3, 2}, 0));
  EXPECT_FALSE(pass("offsets", {0, 2, 6}, 0));
}

TEST(GuardsTest, PivotsOfComplexMatrices) {
  const auto pass = [](const char* name, std::vector<std::int64_t> shape,
                       std::vector<std::int64_t> pivots) {
    const bool is_block = std::string(name) == "linalg_ldl_solve";
    return Arguments()
        .AddComplex(is_block ? "LD" : "LU_data", {3, 3, 2})
        .Add(is_block ? "pivots" : "LU_pivots", std::move(shape), std::move(pivots), kInt32)
        .Pass(name);
  };
  EXPECT_TRUE(pass("lu_unpack", {3}, {1, 2, 3}));
  EXPECT_FALSE(pass("lu_unpack", {2}, {1, 2}));
  EXPECT_FALSE(pass("lu_unpack", {3, 2}, {1, 2, 1, 2, 1, 2}));
  EXPECT_TRUE(pass("lu_solve", {3}, {1, 2, 3}));
  EXPECT_FALSE(pass("lu_solve", {3}, {1, 2, 4}));
  EXPECT_TRUE(pass("linalg_ldl_solve", {3}, {1, -2, -2}));
  EXPECT_FALSE(pass("linalg_ldl_solve", {3}, {1, 2, -2}));
  EXPECT_FALSE(pass("linalg_ldl_solve", {2}, {1, 2}));
}

TEST(GuardsTest, UndefinedQuotients) {
  constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kSmallest32 = std::numeric_limits<std::int32_t>::min();
  const auto pass = [](std::int64_t dividend, std::int64_t divisor, int type, int other_type,
                       bool has_mode) {
    Arguments arguments;
    arguments.Add("self", {1}, {dividend}, type).Add("other", {}, {divisor}, other_type);
    if (has_mode) arguments.AddText("rounding_mode", "trunc");
    return arguments.Pass("div");
  };
  EXPECT_FALSE(pass(kSmallest, -1, kInt64, kInt64, true));
  EXPECT_TRUE(pass(kSmallest, -1, kInt64, kInt64, false));
  EXPECT_TRUE(pass(kSmallest, -2, kInt64, kInt64, true));
  EXPECT_TRUE(pass(kSmallest + 1, -1, kInt64, kInt64, true));
  EXPECT_TRUE(pass(kSmallest32, -1, kInt64, kInt64, true));
  EXPECT_FALSE(pass(kSmallest32, -1, kInt32, kInt32, true));
  // A tensor without dimensions is converted to the type of the other, and truncated.
  EXPECT_FALSE(pass(kSmallest32, -1, kInt32, kInt64, true));
  EXPECT_FALSE(pass(kSmallest32, 0xffffffff, kInt32, kInt64, true));
  const auto pass_number = [](std::int64_t divisor) {
    return Arguments()
        .Add("self", {1}, {kSmallest})
        .Add("other", divisor)
        .AddText("rounding_mode", "floor")
        .Pass("divide");
  };
  EXPECT_TRUE(pass_number(3));
  EXPECT_FALSE(pass_number(-1));
}

TEST(GuardsTest, Repeats) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 62U;
  const auto pass = [](std::vector<std::int64_t> repeats) {
    const auto count = static_cast<std::int64_t>(repeats.size());
    return Arguments().Add("repeats", {count}, std::move(repeats)).Pass("repeat_interleave");
  };
  EXPECT_TRUE(pass({1, 0, 3}));
  EXPECT_TRUE(pass({}));
  EXPECT_FALSE(pass({1, -1}));
  EXPECT_FALSE(pass({kLarge, kLarge, kLarge, kLarge}));
  EXPECT_FALSE(pass({kLarge, kLarge}));
  const auto spread = [](std::int64_t repeats) {
    return Arguments().Add("self", {4}, {}).Add("repeats", repeats).Pass("repeat_interleave");
  };
  EXPECT_TRUE(spread(3));
  EXPECT_FALSE(spread(kLarge));
  EXPECT_FALSE(spread(-1));
}

TEST(GuardsTest, FiniteMatrices) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(Arguments().AddReals("self", {1, 2}, {1, 2}).Pass("linalg_eigvals"));
  EXPECT_FALSE(Arguments().AddReals("self", {1, 2}, {1, nan}).Pass("linalg_eigvals"));
  EXPECT_FALSE(Arguments().AddReals("self", {1, 2}, {1, nan}, true).Pass("linalg_eigvals"));
  EXPECT_TRUE(Arguments().AddReals("self", {0, 2}, {}).Pass("linalg_eigvals"));
}

TEST(GuardsTest, Points) {
  EXPECT_TRUE(Arguments().Add("self", {3, 2}, {}).Add("p", 2).Pass("_pdist_forward"));
  EXPECT_FALSE(Arguments().Add("self", {3}, {}).Add("p", 2).Pass("_pdist_forward"));
  EXPECT_FALSE(Arguments().Add("self", {3, 2}, {}).Add("p", -1).Pass("_pdist_forward"));
}

}  // namespace
}  // namespace opgraft::aten
