// Tests of the checks for images.
#include <gtest/gtest.h>

#include <limits>

#include "aten/guard_arguments_test.h"

namespace opgraft::aten {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(GuardsOfImagesTest, Scales) {
  const auto pass = [](std::int64_t output, double scale) {
    return Arguments()
        .AddShape("self", {1, 2, 6})
        .AddNumbers("output_size", {output})
        .AddReal("scales", scale)
        .Pass("upsample_nearest1d");
  };
  EXPECT_TRUE(pass(12, 2));
  EXPECT_TRUE(pass(3, 0.5));
  EXPECT_TRUE(pass(1, 0.17));
  EXPECT_TRUE(pass(4, 0.7));
  for (const double scale : {0.0, -1.0, 1e-30, 0.1, 5e-324, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(pass(1, scale)) << scale;
  }
  EXPECT_FALSE(pass(12, 1.5));
  EXPECT_FALSE(pass(0, 2));
  EXPECT_FALSE(pass(-1, 2));
}

TEST(GuardsOfImagesTest, ScalesOfEachAxis) {
  const auto pass = [](Shape shape, const Shape& output, double height, double width) {
    return Arguments()
        .AddShape("self", std::move(shape))
        .AddNumbers("output_size", output)
        .AddReal("scales_h", height)
        .AddReal("scales_w", width)
        .Pass("upsample_bicubic2d");
  };
  EXPECT_TRUE(pass({1, 2, 6, 7}, {12, 21}, 2, 3));
  EXPECT_FALSE(pass({1, 2, 6, 7}, {12, 21}, 2, 1e-30));
  EXPECT_FALSE(pass({1, 2, 6, 7}, {12, 21}, 1e-30, 3));
  EXPECT_FALSE(pass({1, 2, 6, 7}, {12, 21, 3}, 2, 3));
  EXPECT_FALSE(pass({6, 7}, {12, 21}, 2, 3));
  EXPECT_FALSE(pass({}, {12, 21}, 2, 3));
}

TEST(GuardsOfImagesTest, OneSizeStandsForAll) {
  EXPECT_TRUE(
      Arguments().AddShape("self", {1, 2, 6, 7}).Add("output_size", 5).Pass("upsample_bilinear2d"));
  EXPECT_FALSE(
      Arguments().AddShape("self", {1, 2, 6, 7}).Add("output_size", 0).Pass("upsample_bilinear2d"));
}

TEST(GuardsOfImagesTest, TheMessageSaysWhatIsWrong) {
  EXPECT_EQ(Arguments()
                .AddShape("self", {1, 2, 6})
                .AddNumbers("output_size", {12})
                .AddReal("scales", 1e-30)
                .Check("upsample_linear1d"),
            "expected scales that scale the input's size 6 to the output's size 12, got 1e-30");
}

TEST(GuardsOfImagesTest, Grids) {
  const auto pass = [](Shape input, Shape grid, std::int64_t mode, std::int64_t padding) {
    return Arguments()
        .AddShape("input", std::move(input))
        .AddShape("grid", std::move(grid))
        .Add("interpolation_mode", mode)
        .Add("padding_mode", padding)
        .Pass("grid_sampler");
  };
  EXPECT_TRUE(pass({2, 3, 6, 7}, {2, 4, 5, 2}, 2, 2));
  EXPECT_TRUE(pass({2, 3, 6, 7, 8}, {2, 4, 5, 6, 3}, 1, 0));
  EXPECT_FALSE(pass({2, 3, 6, 7, 8}, {2, 4, 5, 6, 3}, 2, 0));
  EXPECT_FALSE(pass({2, 3, 6, 7}, {2, 4, 5, 2}, 3, 0));
  EXPECT_FALSE(pass({2, 3, 6, 7}, {2, 4, 5, 2}, -1, 0));
  EXPECT_FALSE(pass({2, 3, 6, 7}, {2, 4, 5, 2}, 0, 3));
  EXPECT_FALSE(pass({2, 3, 6, 7}, {2, 4, 5, 3}, 0, 0));
  EXPECT_FALSE(pass({2, 3, 6, 7}, {1, 4, 5, 2}, 0, 0));
  EXPECT_FALSE(pass({2, 3, 0, 7}, {2, 4, 5, 2}, 0, 0));
  EXPECT_FALSE(pass({2, 3, 6}, {2, 4, 1}, 0, 0));
  EXPECT_FALSE(pass({}, {}, 0, 0));
}

}  // namespace
}  // namespace opgraft::aten
