// Tests of the checks for layers: attention, normalization, recurrent cells.
#include <gtest/gtest.h>

#include <limits>

#include "aten/guard_arguments_test.h"

namespace opgraft::aten {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(GuardsOfLayersTest, Attention) {
  const auto pass = [](Shape query, Shape key, Shape value, std::int64_t has_groups = 0) {
    return Arguments()
        .AddShape("query", std::move(query))
        .AddShape("key", std::move(key))
        .AddShape("value", std::move(value))
        .Add("enable_gqa", has_groups)
        .Pass("scaled_dot_product_attention");
  };
  EXPECT_TRUE(pass({2, 3, 4, 8}, {2, 3, 5, 8}, {2, 3, 5, 6}));
  EXPECT_TRUE(pass({4, 8}, {5, 8}, {5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {2, 3, 4, 8}, {2, 3, 5, 8}));  // fewer keys than values
  EXPECT_FALSE(pass({2, 3, 4, 8}, {2, 3, 5, 7}, {2, 3, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {4, 3, 5, 8}, {4, 3, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {2, 2, 5, 8}, {2, 2, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {3, 5, 8}, {3, 5, 8}));
  EXPECT_FALSE(pass({8}, {8}, {8}));
  EXPECT_FALSE(pass({}, {}, {}));
  EXPECT_TRUE(pass({2, 3, 4, 8}, {1, 3, 5, 8}, {1, 3, 5, 8}));
  EXPECT_TRUE(pass({2, 6, 4, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}, 1));
  EXPECT_FALSE(pass({2, 6, 4, 8}, {2, 4, 5, 8}, {2, 4, 5, 8}, 1));
  EXPECT_FALSE(pass({2, 6, 4, 8}, {2, 0, 5, 8}, {2, 0, 5, 8}, 1));
}

TEST(GuardsOfLayersTest, MasksOfAttention) {
  const auto pass = [](const char* name, Shape mask, int type = kFloat32) {
    return Arguments()
        .AddShape("query", {2, 3, 4, 8})
        .AddShape("key", {2, 3, 5, 8})
        .AddShape("value", {2, 3, 5, 8})
        .AddShape("attn_mask", std::move(mask), type)
        .Pass(name);
  };
  for (const char* const name :
       {"scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"}) {
    EXPECT_TRUE(pass(name, {4, 5}));
    EXPECT_TRUE(pass(name, {2, 1, 1, 5}));
    EXPECT_TRUE(pass(name, {2, 3, 4, 5}));
    EXPECT_FALSE(pass(name, {5, 4}));
    EXPECT_FALSE(pass(name, {3, 3, 4, 5}));
    EXPECT_FALSE(pass(name, {1, 2, 3, 4, 5}));
    EXPECT_FALSE(pass(name, {0, 5}));
    EXPECT_FALSE(pass(name, {}));
  }
  EXPECT_TRUE(pass("scaled_dot_product_attention", {3, 4, 5}));
  EXPECT_FALSE(pass("_scaled_dot_product_flash_attention_for_cpu", {3, 4, 5}));
  EXPECT_FALSE(pass("_scaled_dot_product_flash_attention_for_cpu", {4, 5}, kInt64));
}

TEST(GuardsOfLayersTest, FlashAttention) {
  const auto pass = [](Shape query, Shape key, Shape value, int type = kFloat32) {
    return Arguments()
        .AddShape("query", std::move(query))
        .AddShape("key", std::move(key), type)
        .AddShape("value", std::move(value))
        .Pass("_scaled_dot_product_flash_attention_for_cpu");
  };
  EXPECT_TRUE(pass({2, 3, 4, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {2, 3, 4, 8}, {2, 3, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {1, 3, 5, 8}, {1, 3, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {2, 3, 0, 8}, {2, 3, 0, 8}));
  EXPECT_FALSE(pass({3, 4, 8}, {3, 5, 8}, {3, 5, 8}));
  EXPECT_FALSE(pass({2, 3, 4, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}, kDouble));
}

TEST(GuardsOfLayersTest, MaskedSoftmax) {
  const auto pass = [](Shape self, Shape mask, std::int64_t dimension, std::int64_t type) {
    return Arguments()
        .AddShape("self", std::move(self))
        .AddShape("mask", std::move(mask))
        .Add("dim", dimension)
        .Add("mask_type", type)
        .Pass("_masked_softmax");
  };
  EXPECT_TRUE(pass({2, 3}, {2, 3}, 0, 2));
  EXPECT_FALSE(pass({2, 3}, {3}, 0, 2));
  EXPECT_FALSE(pass({2, 3}, {2, 3}, 2, 2));
  EXPECT_FALSE(pass({2, 3}, {2, 3}, 0, 3));
  EXPECT_FALSE(pass({}, {}, -1, 2));
  EXPECT_TRUE(pass({2, 3, 4, 4}, {4, 4}, 3, 0));
  EXPECT_TRUE(pass({2, 3, 4, 4}, {2, 4}, -1, 1));
  EXPECT_FALSE(pass({2, 3, 4, 4}, {2, 4}, 0, 1));
  EXPECT_FALSE(pass({2, 3, 4, 4}, {3, 4}, 3, 1));
  EXPECT_FALSE(pass({2, 3, 4, 5}, {5, 5}, 3, 0));
}

TEST(GuardsOfLayersTest, GroupNorm) {
  const auto pass = [](std::int64_t batch, std::int64_t channels, std::int64_t area,
                       std::int64_t groups, std::int64_t weights) {
    return Arguments()
        .AddShape("input", {2, 6, 5})
        .AddShape("weight", {weights})
        .Add("N", batch)
        .Add("C", channels)
        .Add("HxW", area)
        .Add("group", groups)
        .Pass("native_group_norm");
  };
  EXPECT_TRUE(pass(2, 6, 5, 3, 6));
  EXPECT_FALSE(pass(2, 6, 5, 3, 5));
  EXPECT_FALSE(pass(2, 6, 5, 4, 6));
  EXPECT_FALSE(pass(2, 6, 5, 0, 6));
  EXPECT_FALSE(pass(2, 6, 6, 3, 6));
  EXPECT_FALSE(pass(-2, 6, -5, 3, 6));
  constexpr std::int64_t kLarge = std::int64_t{1} << 62U;
  EXPECT_FALSE(pass(kLarge + 15, 4, 1, 1, 4));  // the product overflows to 60
}

TEST(GuardsOfLayersTest, NormalizationWithoutTraining) {
  const auto pass = [](Shape mean, Shape variance) {
    return Arguments()
        .AddShape("input", {2, 3, 4})
        .AddShape("running_mean", std::move(mean))
        .AddShape("running_var", std::move(variance))
        .Pass("_native_batch_norm_legit_no_training");
  };
  EXPECT_TRUE(pass({3}, {3}));
  EXPECT_FALSE(pass({2}, {3}));
  EXPECT_FALSE(pass({3}, {}));
}

Arguments Cells(std::int64_t layers, std::vector<Shape> states, std::vector<Shape> params) {
  return Arguments()
      .Add("num_layers", layers)
      .Add("has_biases", 0)
      .AddShapes("hx", std::move(states))
      .AddShapes("params", std::move(params));
}

TEST(GuardsOfLayersTest, LayersOfLstm) {
  EXPECT_FALSE(Arguments().Add("num_layers", -2).Add("has_biases", 0).Pass("lstm"));
  EXPECT_FALSE(Arguments().Add("num_layers", 1).Add("has_biases", 1).Pass("lstm"));
  EXPECT_FALSE(
      Arguments().Add("num_layers", std::numeric_limits<std::int64_t>::min()).Pass("lstm"));
}

TEST(GuardsOfLayersTest, WeightsOfLstm) {
  const auto pass = [](std::vector<Shape> states, std::vector<Shape> params) {
    return Cells(1, std::move(states), std::move(params)).AddShape("input", {4, 2, 3}).Pass("lstm");
  };
  const Shape state = {1, 2, 5};
  EXPECT_TRUE(pass({state, state}, {{20, 3}, {20, 5}}));
  EXPECT_FALSE(pass({state, state}, {{20, 4}, {20, 5}}));
  EXPECT_FALSE(pass({state, state}, {{20, 3}, {20, 4}}));
  EXPECT_FALSE(pass({state, state}, {{16, 3}, {20, 5}}));
  EXPECT_FALSE(pass({state, state}, {{20, 3, 1}, {20, 5}}));
  EXPECT_FALSE(pass({state}, {{20, 3}, {20, 5}}));
  EXPECT_FALSE(pass({{1, 1, 5}, state}, {{20, 3}, {20, 5}}));
  EXPECT_FALSE(pass({{2, 5}, state}, {{20, 3}, {20, 5}}));
  EXPECT_FALSE(pass({{1, 2, 0}, {1, 2, 0}}, {{0, 3}, {0, 0}}));
  EXPECT_FALSE(
      pass({{1, 2, std::int64_t{1} << 62U}, {1, 2, std::int64_t{1} << 62U}}, {{20, 3}, {20, 5}}));
  EXPECT_TRUE(pass({{1, 2, 2}, state}, {{20, 3}, {20, 2}, {2, 5}}));  // with a projection
  EXPECT_FALSE(pass({{1, 2, 2}, state}, {{20, 3}, {20, 2}, {5, 2}}));
  EXPECT_FALSE(pass({}, {}));
}

TEST(GuardsOfLayersTest, SecondLayersTakeTheOutputOfTheFirst) {
  const auto pass = [](std::int64_t taken) {
    const Shape state = {2, 2, 5};
    return Cells(2, {state, state}, {{20, 3}, {20, 5}, {20, taken}, {20, 5}})
        .AddShape("input", {4, 2, 3})
        .Pass("lstm");
  };
  EXPECT_TRUE(pass(5));
  EXPECT_FALSE(pass(3));
}

TEST(GuardsOfLayersTest, PackedSequences) {
  const auto pass = [](std::vector<std::int64_t> sizes) {
    const auto count = static_cast<std::int64_t>(sizes.size());
    return Arguments()
        .Add("num_layers", 1)
        .Add("has_biases", 0)
        .AddShape("hx", {1, 3, 5})
        .AddShapes("params", {{15, 2}, {15, 5}})
        .AddShape("data", {6, 2})
        .Add("batch_sizes", {count}, std::move(sizes))
        .Pass("gru");
  };
  EXPECT_TRUE(pass({3, 2, 1}));
  EXPECT_FALSE(pass({}));
  EXPECT_FALSE(pass({3, 1, 2}));
  EXPECT_FALSE(pass({3, 2}));
  EXPECT_FALSE(pass({3, 3, 1}));
  EXPECT_FALSE(pass({3, 3, 0}));
  EXPECT_FALSE(pass({2, 2, 2}));
  EXPECT_FALSE(pass({std::numeric_limits<std::int64_t>::min(), 3}));
}

}  // namespace
}  // namespace opgraft::aten
