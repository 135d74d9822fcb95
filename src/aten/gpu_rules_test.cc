// Tests of the checks before an operator runs on a GPU.
#include "aten/gpu_rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "aten/guard_arguments_test.h"
#include "aten/operators.h"

namespace opgraft::aten {
namespace {

/// Returns all operators that run without an allowance.
std::vector<Schema> Listed() {
  std::vector<Schema> schemas;
  for (std::string_view left = AllOperators(); !left.empty();) {
    const std::size_t end = left.find('\n');
    Schema schema;
    const bool is_read = ReadSchema(left.substr(1, end - 1), &schema);
    EXPECT_TRUE(is_read);
    if (left[0] != '!') schemas.push_back(std::move(schema));
    left.remove_prefix(end + 1);
  }
  return schemas;
}

TEST(GpuRulesTest, EveryOperatorWithIndicesIsCheckedOrRunsOnTheHost) {
  const std::set<std::string_view> names = {
      "index",   "indices",   "target", "targets", "offsets",        "lengths",
      "samples", "sorter",    "labels", "repeats", "random_samples", "batch_sizes",
      "pivots",  "LU_pivots", "q",      "count"};
  // Their targets are numbers to compare with; libtorch checks a sorter on the CPU.
  const std::set<std::string_view> safe = {"binary_cross_entropy_with_logits",
                                           "cosine_embedding_loss",
                                           "hinge_embedding_loss",
                                           "huber_loss",
                                           "kl_div",
                                           "l1_loss",
                                           "margin_ranking_loss",
                                           "mse_loss",
                                           "poisson_nll_loss",
                                           "searchsorted",
                                           "smooth_l1_loss",
                                           "soft_margin_loss"};
  for (const Schema& schema : Listed()) {
    for (const Parameter& parameter : schema.parameters) {
      if (parameter.type.kind != Kind::kTensor || !names.contains(parameter.name)) continue;
      const GpuRule rule = FindGpuRule(schema);
      const bool is_read = rule.guard != nullptr &&
                           (rule.read[0] == parameter.name || rule.read[1] == parameter.name);
      EXPECT_TRUE(is_read || RunsOnHost(schema) || safe.contains(schema.name))
          << schema.FullName() << ", " << parameter.name;
    }
  }
}

TEST(GpuRulesTest, RulesNameExistingOperatorsAndArguments) {
  for (const GpuRule& rule : AllGpuRules()) {
    for (const std::string_view read : rule.read) {
      bool is_found = read.empty();
      for (const Operator& one : FindOperators(rule.name.substr(0, rule.name.find('.')))) {
        for (const Parameter& parameter : one.schema.parameters) is_found |= parameter.name == read;
      }
      EXPECT_TRUE(is_found) << rule.name << ", " << read;
    }
    EXPECT_FALSE(FindOperators(rule.name.substr(0, rule.name.find('.'))).empty()) << rule.name;
  }
}

/// A guard must refuse numbers that it cannot read: it only gets those that its rule names.
TEST(GpuRulesTest, UnreadableNumbersAreRefused) {
  const auto check = [](Arguments arguments, const char* name) {
    arguments.HideFromHost();
    return arguments.CheckOnGpu(name);
  };
  EXPECT_NE(
      check(Arguments().AddShape("self", {2}).Add("dim", 0).Add("index", {1}, {0}), "index_select"),
      "");
  EXPECT_NE(check(Arguments().AddShape("weight", {2, 3}).Add("indices", {1}, {0}), "embedding"),
            "");
  EXPECT_NE(check(Arguments().AddShape("self", {2, 3}).Add("target", {2}, {0, 0}), "nll_loss"), "");
  EXPECT_NE(check(Arguments().Add("self", {1}, {0}), "one_hot"), "");
  EXPECT_NE(check(Arguments().AddReals("self", {1}, {0.5}), "bernoulli"), "");
  EXPECT_NE(check(Arguments().AddReals("self", {1}, {0.5}), "multinomial"), "");
}

TEST(GpuRulesTest, IndicesAlongADimension) {
  const auto pass = [](std::int64_t dimension, std::int64_t index, const char* name) {
    return Arguments()
        .AddShape("self", {2, 5})
        .Add("dim", dimension)
        .Add("index", {2}, {0, index})
        .CheckOnGpu(name)
        .empty();
  };
  for (const char* const name : {"index_select", "gather", "scatter", "scatter_add", "index_copy",
                                 "index_add", "index_reduce", "scatter_reduce"}) {
    EXPECT_TRUE(pass(1, 4, name)) << name;
    EXPECT_TRUE(pass(-2, 1, name)) << name;
    EXPECT_FALSE(pass(1, 5, name)) << name;
    EXPECT_FALSE(pass(0, 2, name)) << name;
    EXPECT_FALSE(pass(1, -1, name)) << name;
    EXPECT_TRUE(pass(2, 9, name)) << name;  // libtorch refuses the dimension
  }
  EXPECT_TRUE(pass(1, -5, "index_fill"));
  EXPECT_FALSE(pass(1, -6, "index_fill"));
  const Arguments number = Arguments().AddShape("self", {}).Add("dim", 0).Add("index", {1}, {0});
  EXPECT_EQ(number.CheckOnGpu("index_select"), "");
}

TEST(GpuRulesTest, IndicesOfAllElements) {
  const auto pass = [](std::int64_t index, const char* name) {
    return Arguments().AddShape("self", {2, 3}).Add("index", {1}, {index}).CheckOnGpu(name).empty();
  };
  for (const char* const name : {"take", "put"}) {
    EXPECT_TRUE(pass(5, name));
    EXPECT_TRUE(pass(-6, name));
    EXPECT_FALSE(pass(6, name));
    EXPECT_FALSE(pass(-7, name));
  }
  const auto take_along = [](std::int64_t index) {
    return Arguments().AddShape("self", {2, 3}).Add("indices", {1}, {index});
  };
  EXPECT_EQ(take_along(5).CheckOnGpu("take_along_dim"), "");
  EXPECT_NE(take_along(6).CheckOnGpu("take_along_dim"), "");
  EXPECT_EQ(take_along(2).Add("dim", 1).CheckOnGpu("take_along_dim"), "");
  EXPECT_NE(take_along(3).Add("dim", 1).CheckOnGpu("take_along_dim"), "");
}

TEST(GpuRulesTest, IndicesOfEachDimension) {
  const auto pass = [](const std::vector<Arguments::Index>& indices) {
    return Arguments()
        .AddShape("self", {2, 3, 4})
        .AddIndices("indices", indices)
        .CheckOnGpu("index")
        .empty();
  };
  const auto at = [](std::int64_t number) {
    return Arguments::Index(Arguments::IndexTensor{{1}, {number}, kInt64});
  };
  EXPECT_TRUE(pass({at(1)}));
  EXPECT_TRUE(pass({at(-2)}));
  EXPECT_FALSE(pass({at(2)}));
  EXPECT_TRUE(pass({std::nullopt, at(2)}));
  EXPECT_FALSE(pass({std::nullopt, at(3)}));
  const Arguments::Index mask = Arguments::IndexTensor{{2, 3}, {}, kBool};  // for two dimensions
  EXPECT_TRUE(pass({mask, at(3)}));
  EXPECT_FALSE(pass({mask, at(4)}));
}

TEST(GpuRulesTest, ClassesAndRows) {
  const auto rows = [](std::int64_t row) {
    return Arguments().AddShape("weight", {4, 2}).Add("indices", {1, 2}, {0, row});
  };
  EXPECT_EQ(rows(3).CheckOnGpu("embedding"), "");
  EXPECT_NE(rows(4).CheckOnGpu("embedding"), "");
  EXPECT_NE(rows(-1).CheckOnGpu("embedding"), "");
  const auto classes = [](std::int64_t target) {
    return Arguments()
        .AddShape("self", {2, 3})
        .Add("target", {2}, {0, target})
        .Add("ignore_index", -100);
  };
  for (const char* const name : {"nll_loss", "cross_entropy_loss", "nll_loss_forward"}) {
    EXPECT_EQ(classes(2).CheckOnGpu(name), "");
    EXPECT_EQ(classes(-100).CheckOnGpu(name), "");
    EXPECT_NE(classes(3).CheckOnGpu(name), "");
    EXPECT_NE(classes(-1).CheckOnGpu(name), "");
  }
  const auto hot = [](std::int64_t one, std::int64_t count) {
    return Arguments().Add("self", {1}, {one}).Add("num_classes", count).CheckOnGpu("one_hot");
  };
  EXPECT_EQ(hot(2, 3), "");
  EXPECT_NE(hot(3, 3), "");
  EXPECT_EQ(hot(7, -1), "");
  EXPECT_NE(hot(-1, -1), "");
  const auto unpool = [](std::int64_t index) {
    return Arguments()
        .AddShape("self", {1, 1, 1, 1})
        .Add("indices", {1, 1, 1, 1}, {index})
        .AddNumbers("output_size", {2, 3})
        .CheckOnGpu("max_unpool2d");
  };
  EXPECT_EQ(unpool(5), "");
  EXPECT_NE(unpool(6), "");
}

TEST(GpuRulesTest, MasksAndRepeats) {
  const auto masked = [](std::int64_t given) {
    Arguments arguments;
    arguments.AddShape("self", {4, 3}).AddTruths("mask", {1, 3}, {true, false, true});
    return arguments.AddShape("source", {given}).CheckOnGpu("masked_scatter");
  };
  EXPECT_EQ(masked(8), "");  // two elements in each of four rows
  EXPECT_NE(masked(7), "");
  const auto repeated = [](std::int64_t size) {
    return Arguments()
        .AddShape("self", {2, 3})
        .Add("repeats", {2}, {1, 3})
        .Add("dim", 0)
        .Add("output_size", size)
        .CheckOnGpu("repeat_interleave");
  };
  EXPECT_EQ(repeated(4), "");
  EXPECT_NE(repeated(5), "");
  const auto same = [](std::int64_t size) {
    return Arguments()
        .AddShape("self", {2, 3})
        .Add("repeats", 2)
        .Add("output_size", size)
        .CheckOnGpu("repeat_interleave");
  };
  EXPECT_EQ(same(12), "");
  EXPECT_NE(same(2), "");
}

TEST(GpuRulesTest, Chances) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto pass = [](const char* name, std::vector<double> numbers, const char* argument) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    return Arguments().AddReals(argument, {count}, numbers).CheckOnGpu(name).empty();
  };
  EXPECT_TRUE(pass("bernoulli", {0, 1}, "self"));
  EXPECT_FALSE(pass("bernoulli", {0, 1.5}, "self"));
  EXPECT_FALSE(pass("bernoulli", {nan}, "self"));
  EXPECT_FALSE(pass("bernoulli", {-0.5}, "p"));
  EXPECT_TRUE(pass("quantile", {0, 1}, "q"));
  EXPECT_FALSE(pass("nanquantile", {1.01}, "q"));
  EXPECT_TRUE(pass("poisson", {0, 3}, "self"));
  EXPECT_FALSE(pass("poisson", {-1}, "self"));
  EXPECT_TRUE(pass("multinomial", {0, 2}, "self"));
  EXPECT_FALSE(pass("multinomial", {0, 0}, "self"));
  EXPECT_FALSE(pass("multinomial", {infinity}, "self"));
  EXPECT_FALSE(pass("multinomial", {1, -1}, "self"));
  EXPECT_FALSE(pass("multinomial", {1, nan}, "self"));
}

}  // namespace
}  // namespace opgraft::aten
