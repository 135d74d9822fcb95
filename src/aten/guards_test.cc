// Tests of the checks that operators leave out.
#include "aten/guards.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace opgraft::aten {
namespace {

/// Arguments by name: tensors of integers, numbers, and what is absent.
class Arguments {
 public:
  Arguments& Add(const std::string& name, std::vector<std::int64_t> shape,
                 std::vector<std::int64_t> numbers) {
    names_.push_back(name);
    Written written;
    written.form = Form::kTensor;
    written.integer = static_cast<std::int64_t>(tensors_.size());
    written_.push_back(written);
    numbers.resize(std::max<std::size_t>(1, Count(shape)));
    tensors_.emplace_back(std::move(shape), std::move(numbers));
    return *this;
  }

  Arguments& Add(const std::string& name, std::int64_t number) {
    names_.push_back(name);
    Written written;
    written.form = Form::kInt;
    written.integer = number;
    written_.push_back(written);
    return *this;
  }

  bool Pass(const char* operator_name) {
    std::vector<InputTensor> inputs;
    for (auto& [shape, numbers] : tensors_) inputs.push_back({numbers.data(), 7, shape});
    return FindGuard(operator_name)(NamedArguments(names_, written_, inputs)).empty();
  }

 private:
  std::vector<std::string> names_;
  std::vector<Written> written_;
  std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> tensors_;
};

TEST(GuardsTest, OperatorsWithoutOne) {
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

TEST(GuardsTest, LayersOfLstm) {
  EXPECT_FALSE(Arguments().Add("num_layers", -2).Add("has_biases", 0).Pass("lstm"));
  EXPECT_FALSE(Arguments().Add("num_layers", 1).Add("has_biases", 1).Pass("lstm"));
}

}  // namespace
}  // namespace opgraft::aten
