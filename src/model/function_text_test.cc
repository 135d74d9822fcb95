#include "model/function_text.h"

#include <gtest/gtest.h>

#include "model/declared_values.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

std::string Read(const std::string& text) {
  FunctionText function;
  const Status status = ReadFunctionText(text, &function);
  EXPECT_TRUE(status.ok()) << status.message();
  return function.bytes;
}

std::string Only(const std::string& message, std::uint32_t tag) {
  const Texts all = All(message, tag);
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? "" : all[0];
}

/// Returns the attribute of the only node of a function with this node.
std::string ReadAttributeText(const std::string& attribute) {
  const std::string node =
      Only(Read("F () => (y) { y = Op <" + attribute + "> () }"), tag::kFunctionNode);
  return Only(node, tag::kNodeAttribute);
}

TEST(FunctionTextTest, TheSignature) {
  const std::string function =
      Read("Swish <alpha: float = 1, free> (X, Y) => (Z) { Z = Mul (X, \"\") }");
  EXPECT_EQ(Only(function, tag::kFunctionName), "Swish");
  EXPECT_EQ(All(function, tag::kFunctionInput), (Texts{"X", "Y"}));
  EXPECT_EQ(All(function, tag::kFunctionOutput), Texts{"Z"});
  const std::string alpha = Only(function, tag::kFunctionAttributeDefault);
  EXPECT_EQ(Only(alpha, tag::kAttributeName), "alpha");
  const std::string node = Only(function, tag::kFunctionNode);
  EXPECT_EQ(Only(node, tag::kNodeOpType), "Mul");
  EXPECT_EQ(Only(node, tag::kNodeName), "Z");
  EXPECT_EQ(All(node, tag::kNodeInput), (Texts{"X", ""}));
}

TEST(FunctionTextTest, WhatACallMayHave) {
  FunctionText function;
  ASSERT_TRUE(ReadFunctionText("F <a: int = 1, b> (x, y?) => (z) { z = Op (x) }", &function).ok());
  EXPECT_EQ(function.is_required, (std::vector<bool>{true, false}));
  EXPECT_EQ(function.attributes, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(All(function.bytes, tag::kFunctionInput), (Texts{"x", "y"}));
}

TEST(FunctionTextTest, KindsOfAttributes) {
  const auto integer = [](const std::string& attribute, std::uint32_t tag) {
    for (FieldReader reader(attribute); reader.Next();) {
      if (reader.field().tag() == tag) return reader.field().Integer();
    }
    return std::int64_t{-99};
  };
  EXPECT_EQ(integer(ReadAttributeText("axis = -1"), tag::kAttributeInt), -1);
  EXPECT_EQ(integer(ReadAttributeText("axis: int = 3"), tag::kAttributeInt), 3);
  for (const char* text : {"alpha: float = 2", "alpha = 2.0", "alpha = 2e0"}) {
    const std::string attribute = ReadAttributeText(text);
    EXPECT_EQ(integer(attribute, tag::kAttributeType), tag::kFloat);
    for (FieldReader reader(attribute); reader.Next();) {
      if (reader.field().tag() != tag::kAttributeFloat) continue;
      EXPECT_EQ(reader.field().Float(), 2.0F);
    }
  }
  EXPECT_EQ(integer(ReadAttributeText("axes = [1, 2]"), tag::kAttributeType), tag::kInts);
  EXPECT_EQ(integer(ReadAttributeText("axes: floats = [1]"), tag::kAttributeType), tag::kFloats);
  EXPECT_EQ(Only(ReadAttributeText("mode = \"CRD\""), tag::kAttributeString), "CRD");
  EXPECT_EQ(Only(ReadAttributeText("a: ints = @axes"), tag::kAttributeReference), "axes");
  EXPECT_EQ(integer(ReadAttributeText("a: ints = @axes"), tag::kAttributeType), tag::kInts);
  const std::string tensor =
      Only(ReadAttributeText("value: tensor = int64[2] {1, -1}"), tag::kAttributeTensor);
  EXPECT_EQ(integer(tensor, tag::kTensorDimensions), 2);
  const std::string infinity =
      Only(ReadAttributeText("value: tensor = float {-inf}"), tag::kAttributeTensor);
  EXPECT_EQ(integer(infinity, tag::kTensorDataType), 1);
}

TEST(FunctionTextTest, GraphsMayBeNested) {
  const std::string attribute = ReadAttributeText(
      "body: graph = g (int64 i, bool go, state) => (go_on, float[_, _] next) "
      "{ go_on = Identity (go) next, more = If (go) <then_branch: graph = h () => (a, b) { a, b = "
      "Split (state) }> }");
  const std::string graph = Only(attribute, tag::kAttributeGraph);
  const Texts inputs = All(graph, tag::kGraphInput);
  const Texts outputs = All(graph, tag::kGraphOutput);
  ASSERT_EQ(inputs.size(), 3U);
  ASSERT_EQ(outputs.size(), 2U);
  const auto [name, value] = ReadValueInfo(inputs[0]);
  EXPECT_EQ(name, "i");
  EXPECT_EQ(value.element_type, 7);
  EXPECT_EQ(value.shape, Integers());
  EXPECT_EQ(ReadValueInfo(inputs[2]).second.element_type, 0);
  const auto [output, type] = ReadValueInfo(outputs[1]);
  EXPECT_EQ(output, "next");
  EXPECT_EQ(type.element_type, 1);
  EXPECT_EQ(type.shape, (Integers{-1, -1}));
  const Texts nodes = All(graph, tag::kGraphNode);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(All(nodes[1], tag::kNodeOutput), (Texts{"next", "more"}));
}

TEST(FunctionTextTest, AWrongTextIsAnError) {
  const std::string right = "F <a: int = 1> (x) => (y) { y = Op <b: int = @a> (x) }";
  Read(right);
  for (std::size_t size = 0; size < right.size(); ++size) {
    FunctionText function;
    const Status status = ReadFunctionText(right.substr(0, size), &function);
    EXPECT_EQ(status.kind(), ErrorKind::kError) << right.substr(0, size);
  }
  for (const char* wrong :
       {"F () => (y) { y = Op () } x", "F () => (y) { y = Op <a = 1.2.3> () }",
        "F () => (y) { y = Op <a: tensor = text {}> () }", "F () => (y) { y Op () }"}) {
    FunctionText function;
    EXPECT_FALSE(ReadFunctionText(wrong, &function).ok()) << wrong;
  }
}

}  // namespace
}  // namespace opgraft::model
