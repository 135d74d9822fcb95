#include "model/runtime_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace opgraft::model {
namespace {

/// IR version and opset, in a form that a test can compare and print.
std::pair<std::int64_t, std::int64_t> Limits(std::string_view version) {
  const RuntimeLimits limits = LimitsOf(RuntimeVersion::Parse(version));
  return {limits.ir_version, limits.opset};
}

TEST(RuntimeLimitsTest, CustomOperatorsHaveGotMoreTypes) {
  const auto last_type = [](std::string_view version) {
    return LimitsOf(RuntimeVersion::Parse(version)).last_type;
  };
  EXPECT_EQ(last_type("1.20.1"), 20);  // the last of float8
  EXPECT_EQ(last_type("1.21.0"), 22);  // int4
  EXPECT_EQ(last_type("1.23.2"), 22);
  EXPECT_EQ(last_type("1.24.1"), 23);  // float4
}

TEST(RuntimeLimitsTest, ARowHoldsUpToTheNext) {
  EXPECT_EQ(Limits("1.19.2"), std::pair(10L, 21L));
  EXPECT_EQ(Limits("1.20.1"), std::pair(10L, 21L));
  EXPECT_EQ(Limits("1.21.0"), std::pair(10L, 22L));
  EXPECT_EQ(Limits("1.22.1"), std::pair(10L, 22L));
  EXPECT_EQ(Limits("1.23.2"), std::pair(11L, 23L));
  EXPECT_EQ(Limits("1.24.4"), std::pair(13L, 25L));
  EXPECT_EQ(Limits("1.25.1"), std::pair(13L, 26L));
}

TEST(RuntimeLimitsTest, ANewerRuntimeIsTakenForTheNewestKnown) {
  EXPECT_EQ(Limits("1.31.1"), Limits("1.25.1"));
  EXPECT_EQ(Limits("1.999.0"), Limits("1.25.1"));
}

TEST(RuntimeLimitsTest, ANewMajorVersionIsNewerToo) {
  EXPECT_EQ(Limits("2.0.0"), Limits("1.25.1"));
  EXPECT_EQ(Limits("2.3.1"), Limits("1.25.1"));
}

TEST(IsSameOperatorTest, NothingChangesWithinOneOpset) {
  EXPECT_TRUE(IsSameOperator("Cast", 23, 23));
  EXPECT_TRUE(IsSameOperator("Add", 5, 5));
}

TEST(IsSameOperatorTest, AnOperatorThatNoOpsetTouchedIsTheSame) {
  EXPECT_TRUE(IsSameOperator("Add", 21, 28));
  EXPECT_TRUE(IsSameOperator("MatMul", 21, 22));
}

TEST(IsSameOperatorTest, AChangeCountsFromTheOpsetThatMadeIt) {
  EXPECT_TRUE(IsSameOperator("Cast", 21, 22));
  EXPECT_FALSE(IsSameOperator("Cast", 22, 23));
  EXPECT_FALSE(IsSameOperator("Cast", 21, 28));
  EXPECT_FALSE(IsSameOperator("Sin", 21, 22));
  EXPECT_TRUE(IsSameOperator("Sin", 22, 28));
  EXPECT_TRUE(IsSameOperator("Range", 21, 26));
  EXPECT_FALSE(IsSameOperator("Range", 26, 27));
  EXPECT_TRUE(IsSameOperator("Range", 27, 28));
}

TEST(IsSameOperatorTest, AnOperatorThatAnOpsetBroughtWasNotThereBefore) {
  EXPECT_FALSE(IsSameOperator("BitCast", 25, 26));
  EXPECT_TRUE(IsSameOperator("BitCast", 26, 28));
}

TEST(IsSameOperatorTest, TheFirstAndTheLastOfAListCount) {
  EXPECT_FALSE(IsSameOperator("Acos", 21, 22));
  EXPECT_FALSE(IsSameOperator("ThresholdedRelu", 21, 22));
  EXPECT_FALSE(IsSameOperator("BitShift", 27, 28));
  EXPECT_FALSE(IsSameOperator("Unique", 27, 28));
}

TEST(IsSameOperatorTest, OnlyWholeNamesCount) {
  EXPECT_TRUE(IsSameOperator("Pool", 21, 22));    // MaxPool has changed
  EXPECT_TRUE(IsSameOperator("Softpl", 21, 22));  // Softplus has changed
  EXPECT_TRUE(IsSameOperator("Bit", 21, 28));     // BitCast has come
}

TEST(IsSameOperatorTest, NothingIsKnownBeyondTheTable) {
  EXPECT_FALSE(IsSameOperator("Add", 20, 21));
  EXPECT_FALSE(IsSameOperator("Add", 20, 22));
  EXPECT_FALSE(IsSameOperator("Add", 28, 29));
  EXPECT_FALSE(IsSameOperator("Add", 21, 29));
  EXPECT_FALSE(IsSameOperator("Add", 21, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace
}  // namespace opgraft::model
