#include "model/inline_functions.h"

#include <gtest/gtest.h>

#include "model/prepare.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

/// Returns a FunctionProto of the domain "local", as a field of the model.
std::string Local(const std::string& name, const Texts& inputs, const Texts& outputs,
                  const Texts& nodes, const std::string& more = "") {
  std::string function = Text(tag::kFunctionName, name) + Text(tag::kFunctionDomain, "local");
  for (const std::string& input : inputs) function += Text(tag::kFunctionInput, input);
  for (const std::string& output : outputs) function += Text(tag::kFunctionOutput, output);
  for (const std::string& node : nodes) function += Text(tag::kFunctionNode, node);
  return Text(tag::kFunctions, function + more);
}

std::string Call(const std::string& name, const Texts& inputs, const Texts& outputs,
                 const std::string& attributes = "") {
  return Node(name, "local", inputs, outputs, attributes);
}

Status PrepareModel(const std::string& model, PreparedModel* prepared) {
  NoOperators no_operators;
  return Prepare(model, "'m.onnx'", "1.19.2", no_operators, prepared);
}

/// Returns the nodes of the prepared model's graph.
Texts Nodes(const std::string& model) {
  PreparedModel prepared;
  const Status status = PrepareModel(model, &prepared);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? All(All(prepared.bytes, tag::kGraph).at(0), tag::kGraphNode) : Texts();
}

void ExpectRefused(const std::string& model, const std::string& words) {
  PreparedModel prepared;
  const Status status = PrepareModel(model, &prepared);
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

/// Two levels of calls, with a nested graph, attributes by reference and declared values.
std::string TwoLevels() {
  const std::string reference = Text(tag::kNodeAttribute, Text(tag::kAttributeName, "scale") +
                                                              Text(tag::kAttributeReference, "by") +
                                                              Integer(tag::kAttributeType, 1));
  const std::string initializer = Text(tag::kGraphInitializer, Text(tag::kTensorName, "w"));
  const std::string branch =
      initializer + Graph({Node("Add", "", {"x", "w"}, {"z"}), Call("inner", {"z"}, {"y"})}) +
      Text(tag::kGraphOutput, Value("y", 1, Integers{2}));
  return Model(Graph({Call("outer", {"a"}, {"b"}), Call("outer", {"b"}, {"c"})})) +
         Local("outer", {"x"}, {"y"},
               {Node("Abs", "", {"x"}, {"condition"}), If(branch), Call("inner", {"y"}, {"q"})}) +
         Local("inner", {"x"}, {"y"}, {PyOp() + reference},
               Text(tag::kFunctionValueInfo, Value("y", 1, Integers{-1})));
}

TEST(InlineFunctionsTest, NothingOfTheFunctionIsLeft) {
  PreparedModel prepared;
  ASSERT_TRUE(PrepareModel(TwoLevels(), &prepared).ok());
  EXPECT_TRUE(All(prepared.bytes, tag::kFunctions).empty());
  EXPECT_EQ(prepared.bytes.find("local"), std::string::npos);
  EXPECT_EQ(prepared.python_operators.size(), 4U);
  EXPECT_EQ(Nodes(TwoLevels()).size(), 6U);
  PreparedModel again;
  ASSERT_TRUE(PrepareModel(prepared.bytes, &again).ok());
  EXPECT_EQ(again.bytes, "");
}

TEST(InlineFunctionsTest, ConstantsOfAFunctionAreNotCopiedOnTheWay) {
  const std::string weight(1 << 20, 'w');
  const std::string value = Attribute("value", 4, Text(tag::kAttributeTensor, Text(9, weight)));
  const std::string model =
      Local("f", {"x"}, {"y"}, {Node("Constant", "", {}, {"w"}, value), PyOp()});
  Functions functions;
  const IsOurs is_ours = [](std::string_view, const NodeHead& head) { return head.IsPyOp(); };
  const IsAnother is_another = [](const NodeHead&, std::int64_t) { return false; };
  ASSERT_TRUE(functions.Read(model, "'m.onnx'", is_ours, is_another).ok());
  const std::string call = Call("f", {"a"}, {"b"});
  const auto* const function = functions.FindInlined(ReadHead(call));
  ASSERT_NE(function, nullptr);
  Inliner inliner("", "'m.onnx'", model.size());
  Expansion expansion;
  ASSERT_TRUE(inliner.Expand(*function, call, &expansion).ok());
  ASSERT_EQ(expansion.nodes.size(), 2U);
  EXPECT_EQ(expansion.nodes[0].plain, function->nodes[0]);
  EXPECT_EQ(All(expansion.nodes[0].bytes.Gather(), tag::kNodeOutput), Texts{"f_1/w"});
}

TEST(InlineFunctionsTest, AFunctionThatIsNotCalledIsLeftOut) {
  const Texts nodes = {Node("Add", "", {"x", "x"}, {"y"})};
  EXPECT_EQ(Nodes(Model(Graph(nodes)) + Local("f", {"x"}, {"y"}, {PyOp()})), nodes);
}

TEST(InlineFunctionsTest, OursGoesBeforeAFunctionOfTheSameName) {
  const std::string same = Text(
      tag::kFunctions, Text(tag::kFunctionName, "PyOp") + Text(tag::kFunctionDomain, "my.domain") +
                           Text(tag::kFunctionNode, Node("Abs", "", {"x"}, {"y"})));
  const Texts nodes = Nodes(Model(Graph({PyOp()})) + same);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(All(nodes[0], tag::kNodeDomain), Texts{"ai.opgraft"});
}

TEST(InlineFunctionsTest, AnInnerNameMayHideAnOuterOne) {
  // Both inputs are the same value outside, but a name in the nested graph hides one of them.
  const std::string branch = Graph({Node("Abs", "", {"x2"}, {"x1"}), PyOp({"x1", "x2"}, {"z"})}) +
                             Text(tag::kGraphOutput, Value("z", 1, std::nullopt));
  const std::string body = Node("If", "", {"x1"}, {"y"},
                                Attribute("then_branch", 5, Text(tag::kAttributeGraph, branch)));
  const Texts nodes =
      Nodes(Model(Graph({Call("f", {"a", "a"}, {"b"})})) + Local("f", {"x1", "x2"}, {"y"}, {body}));
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(All(nodes[0], tag::kNodeInput), Texts{"a"});
  const std::string graph =
      All(All(nodes[0], tag::kNodeAttribute).at(0), tag::kAttributeGraph).at(0);
  const Texts inner = All(graph, tag::kGraphNode);
  ASSERT_EQ(inner.size(), 2U);
  EXPECT_EQ(All(inner[0], tag::kNodeInput), Texts{"a"});
  EXPECT_EQ(All(inner[0], tag::kNodeOutput), Texts{"f_1/x1"});
  EXPECT_EQ(All(inner[1], tag::kNodeInput), (Texts{"f_1/x1", "a"}));
}

TEST(InlineFunctionsTest, CallsAreNestedToALimit) {
  const auto nested = [](int depth) {
    std::string model = Model(Graph({Call("f1", {"a"}, {"b"})}));
    for (int i = 1; i < depth; ++i) {
      const std::string next = "f" + std::to_string(i + 1);
      model += Local("f" + std::to_string(i), {"x"}, {"y"}, {Call(next, {"x"}, {"y"})});
    }
    return model + Local("f" + std::to_string(depth), {"x"}, {"y"}, {PyOp()});
  };
  EXPECT_EQ(Nodes(nested(65)).size(), 1U);
  ExpectRefused(nested(66), "nested more than 64 deep");
  ExpectRefused(nested(20'000), "nested more than 64 deep");
}

TEST(InlineFunctionsTest, GraphsInAFunctionAreNestedToALimit) {
  const auto nested = [](int depth) {
    std::string graph = Graph({PyOp({}, {"y"})});
    for (int i = 0; i < depth; ++i) {
      graph = Graph({Node("If", "", {}, {"y"},
                          Attribute("then_branch", 5, Text(tag::kAttributeGraph, graph)))});
    }
    return Model(Graph({Call("f", {}, {"b"})})) + Local("f", {}, {"y"}, {All(graph, 1).at(0)});
  };
  EXPECT_EQ(Nodes(nested(63)).size(), 1U);
  ExpectRefused(nested(65), "nested more than 64 deep");
  ExpectRefused(nested(3000), "nested more than 64 deep");
}

TEST(InlineFunctionsTest, CopiesComeToALimit) {
  const auto called = [](std::size_t count, const std::string& name, const std::string& function) {
    return Model(Graph(Texts(count, Call(name, {"x"}, {"y"})))) + function;
  };
  const std::string large(std::size_t{8} << 20U, 'a');
  const std::string in_attribute =
      Local("f", {"x"}, {"y"}, {PyOp() + TextAttribute("free", large)});
  EXPECT_EQ(Nodes(called(10, "f", in_attribute)).size(), 10U);
  ExpectRefused(called(100, "f", in_attribute), "would copy more than");
  const std::string in_names = Local(large, {"x"}, {"y"}, {PyOp({"x"}, {"z"}), PyOp({"z"})});
  ExpectRefused(called(100, large, in_names), "would copy more than");
  const std::string in_shape =
      Local("f", {"x"}, {"y"}, {PyOp({"x"}, {"z"}), PyOp({"z"})},
            Text(tag::kFunctionValueInfo, Value("z", 1, Integers(1 << 20, 3))));
  ExpectRefused(called(100, "f", in_shape), "would copy more than");
}

TEST(InlineFunctionsTest, NoChangedByteDoesWorse) {
  const std::string model = TwoLevels();
  for (std::size_t position = 0; position < model.size(); ++position) {
    for (int byte = 0; byte < 256; byte += 3) {
      std::string changed = model;
      changed[position] = static_cast<char>(byte);
      PreparedModel prepared;
      const Status status = PrepareModel(changed, &prepared);
      ASSERT_TRUE(status.ok() || status.kind() == ErrorKind::kModel) << position << ": " << byte;
    }
  }
}

}  // namespace
}  // namespace opgraft::model
