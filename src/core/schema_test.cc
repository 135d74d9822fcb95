#include "core/schema.h"

#include <gtest/gtest.h>

namespace opgraft {
namespace {

const Parameter kX = {"x", Occurrence::kRequired, 0};
const Parameter kBias = {"bias", Occurrence::kOptional, 0};
const Parameter kMore = {"more", Occurrence::kVariadic, 0};

TEST(SchemaTest, CountsWhatMustAndMayBeThere) {
  EXPECT_TRUE(Schema::TakesCount({}, 0));
  EXPECT_FALSE(Schema::TakesCount({}, 1));
  EXPECT_FALSE(Schema::TakesCount({kX, kBias}, 0));
  EXPECT_TRUE(Schema::TakesCount({kX, kBias}, 1));
  EXPECT_TRUE(Schema::TakesCount({kX, kBias}, 2));
  EXPECT_FALSE(Schema::TakesCount({kX, kBias}, 3));
  EXPECT_FALSE(Schema::TakesCount({kX, kMore}, 0));
  EXPECT_TRUE(Schema::TakesCount({kX, kMore}, 1));
  EXPECT_TRUE(Schema::TakesCount({kX, kMore}, 9));
  EXPECT_TRUE(Schema::TakesCount({kMore}, 0));
}

TEST(SchemaTest, SaysWhatItExpects) {
  EXPECT_EQ(Schema::CountText({}, "input"), "0 inputs");
  EXPECT_EQ(Schema::CountText({kX}, "input"), "1 input");
  EXPECT_EQ(Schema::CountText({kX, kX}, "output"), "2 outputs");
  EXPECT_EQ(Schema::CountText({kX, kBias}, "input"), "1 to 2 inputs");
  EXPECT_EQ(Schema::CountText({kX, kMore}, "input"), "at least 1 input");
}

TEST(SchemaTest, ValuesBeyondTheLastParameterAreOfTheVariadicOne) {
  EXPECT_EQ(Schema::At({kX, kMore}, 0).name, "x");
  EXPECT_EQ(Schema::At({kX, kMore}, 1).name, "more");
  EXPECT_EQ(Schema::At({kX, kMore}, 7).name, "more");
}

TEST(SchemaTest, AnOutputHasTheOnlyTypeOrThatOfTheFirstInputThatIsThere) {
  Schema schema;
  schema.types = {{{1, 11}}, {{7}}, {}};
  schema.inputs = {kX, {"axes", Occurrence::kOptional, 2}, {"more", Occurrence::kVariadic, 2}};
  schema.outputs = {{"y", Occurrence::kRequired, 0},
                    {"n", Occurrence::kRequired, 1},
                    {"z", Occurrence::kVariadic, 2}};
  EXPECT_EQ(schema.OutputType(0, {11, 0, 0, 6}), 11);
  EXPECT_EQ(schema.OutputType(1, {11, 0, 0, 6}), 7);
  EXPECT_EQ(schema.OutputType(2, {11, 0, 0, 6}), 6);
  EXPECT_EQ(schema.OutputType(5, {11, 9, 0, 6}), 9);
  EXPECT_EQ(schema.OutputType(2, {11}), 0);
  schema.inputs.clear();
  EXPECT_EQ(schema.OutputType(0, {}), 0);
  EXPECT_EQ(schema.OutputType(1, {}), 7);
}

TEST(TypeVariableTest, AllowsWhatItListsOrAll) {
  EXPECT_TRUE(TypeVariable().Allows(7));
  EXPECT_TRUE((TypeVariable{{1, 11}}).Allows(11));
  EXPECT_FALSE((TypeVariable{{1, 11}}).Allows(7));
}

}  // namespace
}  // namespace opgraft
