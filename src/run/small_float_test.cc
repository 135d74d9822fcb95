// Tests of small floats, at the limits of their formats.
#include "run/small_float.h"

#include <gtest/gtest.h>

#include <cmath>

namespace opgraft::run {
namespace {

TEST(SmallFloatTest, ReadsEachFormat) {
  EXPECT_EQ(SmallFloat(10, 0x3c00), 1);
  EXPECT_EQ(SmallFloat(16, 0xc020), -2.5);
  EXPECT_EQ(SmallFloat(16, 0x0001), std::ldexp(1, -133));
  EXPECT_EQ(SmallFloat(17, 0x7e), 448);  // the largest value
  EXPECT_EQ(SmallFloat(17, 0x01), std::ldexp(1, -9));
  EXPECT_EQ(SmallFloat(18, 0xff), -240);
  EXPECT_EQ(SmallFloat(18, 0x08), std::ldexp(1, -7));
  EXPECT_EQ(SmallFloat(19, 0x7b), 57344);
  EXPECT_EQ(SmallFloat(20, 0x7f), 57344);
  EXPECT_EQ(SmallFloat(20, 0x01), std::ldexp(1, -17));
  EXPECT_EQ(SmallFloat(23, 0x7), 6);
  EXPECT_EQ(SmallFloat(23, 0x9), -0.5);
}

TEST(SmallFloatTest, ReadsInfinitiesAndNans) {
  EXPECT_EQ(SmallFloat(16, 0xff80), -INFINITY);
  EXPECT_TRUE(std::isnan(SmallFloat(16, 0x7fc0)));
  EXPECT_TRUE(std::isnan(SmallFloat(17, 0xff)));
  EXPECT_TRUE(std::isnan(SmallFloat(18, 0x80)));
  EXPECT_EQ(SmallFloat(19, 0x7c), INFINITY);
  EXPECT_TRUE(std::isnan(SmallFloat(19, 0x7d)));
  EXPECT_TRUE(std::isnan(SmallFloat(20, 0x80)));
}

TEST(SmallFloatTest, OtherTypesAreNotSmallFloats) {
  for (const std::int64_t type : {0, 1, 8, 11, 21, 22, 24}) EXPECT_FALSE(IsSmallFloat(type));
}

}  // namespace
}  // namespace opgraft::run
