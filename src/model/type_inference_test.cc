#include "model/type_inference.h"

#include <gtest/gtest.h>

#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

using Types = std::vector<ValueType>;

std::string IntegerAttribute(const std::string& name, std::int64_t value) {
  return Attribute(name, tag::kInt, Integer(tag::kAttributeInt, value));
}

Types Infer(const std::string& op_type, const Types& inputs, std::size_t outputs = 1,
            std::int64_t version = 22, const std::string& attributes = "") {
  const std::string node =
      Node(op_type, "", Texts(inputs.size(), "x"), Texts(outputs, "y"), attributes);
  return InferTypes(NodeParts(node), version, inputs);
}

TEST(TypeInferenceTest, OutputsHaveTheTypeOfTheirVariable) {
  EXPECT_EQ(Infer("Add", {16, 16}), Types{16});
  EXPECT_EQ(Infer("Where", {9, 5, 5}), Types{5});
  EXPECT_EQ(Infer("Concat", {0, 10}), Types{10});  // from any input that is known
  EXPECT_EQ(Infer("Split", {3}, 3), (Types{3, 3, 3}));
  EXPECT_EQ(Infer("CastLike", {1, 16}), Types{16});
}

TEST(TypeInferenceTest, SomeOutputsHaveOnlyOneType) {
  EXPECT_EQ(Infer("Shape", {16}), Types{7});
  EXPECT_EQ(Infer("Less", {16, 16}), Types{9});
  EXPECT_EQ(Infer("TopK", {16, 7}, 2), (Types{16, 7}));
}

TEST(TypeInferenceTest, AttributesTellTypes) {
  EXPECT_EQ(Infer("Cast", {1}, 1, 22, IntegerAttribute("to", 16)), Types{16});
  EXPECT_EQ(Infer("EyeLike", {6}, 1, 22, IntegerAttribute("dtype", 10)), Types{10});
  EXPECT_EQ(Infer("EyeLike", {6}), Types{6});
  EXPECT_EQ(Infer("RandomNormal", {}), Types{1});
  EXPECT_EQ(Infer("SequenceEmpty", {}, 1, 22, IntegerAttribute("dtype", 16)), Types{1016});
  EXPECT_EQ(Infer("LayerNormalization", {16, 16, 16}, 3), (Types{16, 1, 1}));
  EXPECT_EQ(Infer("Constant", {}, 1, 22, IntegerAttribute("value_int", 1)), Types{7});
  const std::string tensor = Text(tag::kAttributeTensor, Integer(tag::kTensorDataType, 16));
  EXPECT_EQ(Infer("ConstantOfShape", {7}, 1, 22, Attribute("value", tag::kTensor, tensor)),
            Types{16});
  EXPECT_EQ(Infer("ConstantOfShape", {7}), Types{1});
}

TEST(TypeInferenceTest, SequencesAndOptionalsKeepTheirElements) {
  EXPECT_EQ(Infer("SequenceConstruct", {16, 16}), Types{1016});
  EXPECT_EQ(Infer("SequenceAt", {1016, 7}), Types{16});
  EXPECT_EQ(Infer("SequenceErase", {1005, 7}), Types{1005});
  EXPECT_EQ(Infer("Optional", {1016}), Types{3016});
  EXPECT_EQ(Infer("OptionalGetElement", {3016}), Types{1016});
  for (const ValueType type : {1, 16, 1016, 2016, 3016}) {
    EXPECT_EQ(ReadType(WriteType(type)), type);
  }
  EXPECT_EQ(TypeName(3016), "optional(seq(bfloat16))");
}

TEST(TypeInferenceTest, TheVersionCounts) {
  EXPECT_EQ(Infer("Dropout", {16}, 2, 9), (Types{16, 16}));
  EXPECT_EQ(Infer("Dropout", {16}, 2, 22), (Types{16, 9}));
  EXPECT_EQ(Infer("Celu", {10}, 1, 26), Types{1});
  EXPECT_EQ(Infer("Celu", {10}, 1, 28), Types{10});
}

TEST(TypeInferenceTest, WhatIsNotKnownStaysUnknown) {
  EXPECT_EQ(Infer("Add", {0, 0}), Types{0});
  EXPECT_EQ(Infer("NoSuchOperator", {1}), Types{0});
  EXPECT_EQ(Infer("If", {9}), Types{0});
  EXPECT_EQ(Infer("Add", {16, 16}, 3), (Types{16, 0, 0}));  // it has one output
  EXPECT_EQ(Infer("Cast", {1}, 1, 22, IntegerAttribute("to", -5)), Types{0});
  EXPECT_FALSE(IsOnnxOperator("NoSuchOperator"));
}

}  // namespace
}  // namespace opgraft::model
