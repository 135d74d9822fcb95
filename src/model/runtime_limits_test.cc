#include "model/runtime_limits.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace opgraft::model {
namespace {

/// Returns the IR version and opset, in a form that a test can compare and print.
std::pair<std::int64_t, std::int64_t> Limits(std::string_view version) {
  const RuntimeLimits limits = LimitsOf(RuntimeVersion::Parse(version));
  return {limits.ir_version, limits.opset};
}

TEST(RuntimeLimitsTest, CustomOperatorsHaveGotMoreTypes) {
  const auto last_type = [](std::string_view version) {
    return LimitsOf(RuntimeVersion::Parse(version)).last_type;
  };
  EXPECT_EQ(last_type("1.20.1"), 20);  // the last float8 type
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

TEST(RuntimeLimitsTest, ADomainThatTheRuntimeDoesNotKnowHasNoLimit) {
  const RuntimeLimits limits = LimitsOf(RuntimeVersion::Parse("1.31.1"));
  EXPECT_EQ(OpsetLimit(limits, ""), 26);
  EXPECT_EQ(OpsetLimit(limits, "ai.onnx"), 26);
  EXPECT_EQ(OpsetLimit(limits, "ai.onnx.ml"), 5);
  EXPECT_EQ(OpsetLimit(limits, "com.microsoft"), 1);
  EXPECT_EQ(OpsetLimit(limits, "my.domain"), std::nullopt);
}

}  // namespace
}  // namespace opgraft::model
