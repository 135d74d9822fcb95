#include "model/opset_changes.h"

#include <gtest/gtest.h>

#include <limits>
#include <protozero/pbf_writer.hpp>

#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// Whether a node of that operator, without attributes or values, means the same in both opsets.
bool IsSame(std::string_view op_type, std::int64_t older, std::int64_t newer) {
  return Difference("", op_type, older, newer).empty();
}

std::string Integer(const std::string& name, std::int64_t value) {
  std::string node;
  protozero::pbf_writer writer(node);
  protozero::pbf_writer attribute(writer, tag::kNodeAttribute);
  attribute.add_int64(tag::kAttributeInt, value);  // before the name: the order does not matter
  attribute.add_string(tag::kAttributeName, name);
  return node;
}

std::string Values(std::uint32_t tag, const std::vector<std::string>& names) {
  std::string node;
  for (const std::string& name : names) protozero::pbf_writer(node).add_string(tag, name);
  return node;
}

TEST(DifferenceTest, NothingChangesWithinOneOpset) {
  EXPECT_TRUE(IsSame("BitShift", 28, 28));
  EXPECT_TRUE(IsSame("Add", 5, 5));
  EXPECT_TRUE(IsSame("Add", 22, 21));
}

TEST(DifferenceTest, AnOperatorThatNoOpsetTouchedIsTheSame) {
  EXPECT_TRUE(IsSame("Add", 21, 28));
  EXPECT_TRUE(IsSame("MatMul", 21, 22));
}

TEST(DifferenceTest, MoreTypesAreNoDifference) {
  EXPECT_TRUE(IsSame("Sin", 21, 22));
  EXPECT_TRUE(IsSame("Acos", 21, 28));             // the first in its list
  EXPECT_TRUE(IsSame("ThresholdedRelu", 21, 28));  // the last in its list
  EXPECT_TRUE(IsSame("Reshape", 21, 28));
  EXPECT_TRUE(IsSame("Einsum", 26, 28));
}

TEST(DifferenceTest, AChangeCountsFromTheOpsetThatMadeIt) {
  EXPECT_TRUE(IsSame("BitShift", 21, 27));
  EXPECT_EQ(Difference("", "BitShift", 27, 28), "BitShift (since opset 28)");
  EXPECT_FALSE(IsSame("BitShift", 21, 28));
}

TEST(DifferenceTest, AnOperatorThatAnOpsetBroughtWasNotThereBefore) {
  EXPECT_EQ(Difference("", "BitCast", 25, 26), "BitCast (since opset 26)");
  EXPECT_TRUE(IsSame("BitCast", 26, 28));
  EXPECT_FALSE(IsSame("Attention", 22, 28));
  EXPECT_TRUE(IsSame("Attention", 23, 28));
}

TEST(DifferenceTest, ANewAttributeThatIsThereIsADifference) {
  for (const auto& [op_type, attribute, opset] :
       {std::tuple("Range", "stash_type", 27), std::tuple("SpaceToDepth", "mode", 28),
        std::tuple("Cast", "round_mode", 24), std::tuple("CastLike", "round_mode", 24),
        std::tuple("QuantizeLinear", "precision", 23),
        std::tuple("DequantizeLinear", "output_dtype", 23),
        std::tuple("Attention", "left_window_size", 25),
        std::tuple("Attention", "right_window_size", 25)}) {
    const std::string node = Integer(attribute, 0);
    EXPECT_TRUE(IsSame(op_type, opset - 1, 28)) << op_type;
    EXPECT_EQ(Difference(node, op_type, opset - 1, 28), std::string(op_type) + " with '" +
                                                            attribute + "' (since opset " +
                                                            std::to_string(opset) + ")");
    EXPECT_EQ(Difference(node, op_type, opset, 28), "");
  }
}

TEST(DifferenceTest, AnAttributeWhoseMeaningChangedMustBeZero) {
  for (const auto& [op_type, attribute, opset] :
       {std::tuple("AveragePool", "ceil_mode", 22), std::tuple("MaxPool", "ceil_mode", 22),
        std::tuple("Mod", "fmod", 28)}) {
    EXPECT_EQ(Difference(Integer(attribute, 0), op_type, opset - 1, opset), "");
    EXPECT_NE(Difference(Integer(attribute, 1), op_type, opset - 1, opset), "");
    EXPECT_EQ(Difference(Integer("other", 1), op_type, opset - 1, opset), "");
    EXPECT_EQ(Difference(Integer("", 1), op_type, opset - 1, opset), "");
  }
}

TEST(DifferenceTest, AnAttributeThatAFunctionPassesOnMayBeAnything) {
  std::string node;
  protozero::pbf_writer writer(node);
  {
    protozero::pbf_writer attribute(writer, tag::kNodeAttribute);
    attribute.add_string(tag::kAttributeName, "ceil_mode");
    attribute.add_string(tag::kAttributeReference, "mode");
  }
  EXPECT_NE(Difference(node, "MaxPool", 21, 22), "");
}

TEST(DifferenceTest, InputsAndOutputsThatAreCertain) {
  const std::string three = Values(tag::kNodeInput, {"Q", "K", "V"});
  EXPECT_EQ(Difference(three, "Attention", 23, 24), "");
  EXPECT_EQ(Difference(three + Values(tag::kNodeInput, {"", ""}), "Attention", 23, 24), "");
  EXPECT_EQ(Difference(three + Values(tag::kNodeInput, {"", "past"}), "Attention", 23, 24),
            "Attention with more than 3 inputs (since opset 24)");
  EXPECT_EQ(Difference(three + Values(tag::kNodeOutput, {"Y", ""}), "Attention", 23, 24), "");
  EXPECT_EQ(Difference(three + Values(tag::kNodeOutput, {"Y", "key"}), "Attention", 23, 24),
            "Attention with more than 1 output (since opset 24)");
}

TEST(DifferenceTest, OnlyWholeNamesCount) {
  EXPECT_TRUE(IsSame("Shift", 21, 28));
  EXPECT_TRUE(IsSame("Bit", 21, 28));
  EXPECT_TRUE(IsSame("", 21, 28));
}

TEST(DifferenceTest, NothingIsKnownBeyondTheTable) {
  EXPECT_EQ(Difference("", "Add", 28, 29), "Add");
  EXPECT_FALSE(IsSame("Add", 20, 21));
  EXPECT_FALSE(IsSame("Add", 20, 22));
  EXPECT_FALSE(IsSame("Add", 21, 29));
  EXPECT_FALSE(IsSame("Add", 21, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace
}  // namespace opgraft::model
