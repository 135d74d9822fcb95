#include "model/prepare.h"

#include <gtest/gtest.h>

#include <map>

#include "model/runtime_limits.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

NoOperators no_operators;

constexpr char kOldRuntime[] = "1.19.2";  // supports at most IR version 10 and opset 21

std::string GraphOf(const PreparedModel& prepared) {
  return All(prepared.bytes, tag::kGraph).at(0);
}

std::string NodeOf(const PreparedModel& prepared) {
  return All(GraphOf(prepared), tag::kGraphNode).at(0);
}

/// Returns the attributes of a node by name, each as a field, for comparison.
std::map<std::string, std::string> Attributes(const std::string& node) {
  std::map<std::string, std::string> attributes;
  for (const std::string& attribute : All(node, tag::kNodeAttribute)) {
    attributes[All(attribute, tag::kAttributeName).at(0)] = Text(tag::kNodeAttribute, attribute);
  }
  return attributes;
}

PreparedModel Prepared(const std::string& model, const char* runtime = kOldRuntime) {
  PreparedModel prepared;
  const Status status = Prepare(model, "'m.onnx'", runtime, no_operators, &prepared);
  EXPECT_TRUE(status.ok()) << status.message();
  return prepared;
}

/// Expects a ModelError whose message contains each of `words`.
void ExpectRefused(const std::string& model, const Texts& words) {
  PreparedModel prepared;
  const Status status = Prepare(model, "'m.onnx'", kOldRuntime, no_operators, &prepared);
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos) << word << ": " << status.message();
  }
}

TEST(PrepareTest, AModelThatServesAsItIsStays) {
  const PreparedModel prepared = Prepared(Model(Graph({Node("Add", "", {"x", "x"}, {"y"})})));
  EXPECT_EQ(prepared.bytes, "");
  EXPECT_FALSE(prepared.has_external_data);
  EXPECT_TRUE(prepared.python_operators.empty());
}

TEST(PrepareTest, APyOpBecomesTheCanonicalNode) {
  const std::string free =
      Attribute("alpha", tag::kInt, Integer(tag::kAttributeInt, 3)) +
      IntegersAttribute("input_places", {7});  // not a special attribute in this form
  const std::string module = TextAttribute("module", "my.module");
  const std::string class_name = TextAttribute("class_name", "Class");
  const std::string compute = TextAttribute("compute", "run");
  const std::string input_types = IntegersAttribute("input_types", {1, 7});
  const std::string output_types = IntegersAttribute("output_types", {11});
  const std::string add = Node("Add", "", {"y", "y"}, {"z"});
  const std::string pyop = Node("PyOp", "", {"a", "b"}, {"y"},
                                module + free + class_name + compute + input_types + output_types);
  const PreparedModel prepared =
      Prepared(Model(Graph({pyop + Text(tag::kNodeName, "n") + Text(6, "documentation"), add})));

  const Texts nodes = All(GraphOf(prepared), tag::kGraphNode);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1], add);
  EXPECT_EQ(All(nodes[0], tag::kNodeOpType), Texts{"PyOp"});
  EXPECT_EQ(All(nodes[0], tag::kNodeDomain), Texts{"ai.opgraft"});
  EXPECT_EQ(All(nodes[0], tag::kNodeName), Texts{"n"});
  EXPECT_EQ(All(nodes[0], tag::kNodeInput), (Texts{"a", "b"}));
  EXPECT_EQ(All(nodes[0], tag::kNodeOutput), Texts{"y"});
  EXPECT_EQ(All(nodes[0], 6), Texts{"documentation"});
  EXPECT_EQ(Attributes(nodes[0]),
            (std::map<std::string, std::string>{
                {"format", Attribute("format", tag::kInt, Integer(tag::kAttributeInt, 1))},
                {"module", module},
                {"class_name", class_name},
                {"compute", compute},
                {"input_types", input_types},
                {"output_types", output_types},
                {"arguments", TextAttribute("arguments", free)}}));

  ASSERT_EQ(prepared.python_operators.size(), 1U);
  const pyop::Spec& spec = prepared.python_operators[0];
  EXPECT_EQ(spec.Who(), "node 'n', operator my.module.Class");
  EXPECT_EQ(spec.compute, "run");
  EXPECT_EQ(spec.input_types, (Integers{1, 7}));
  EXPECT_EQ(spec.output_types, Integers{11});
  EXPECT_EQ(spec.arguments, "");  // left out, because they may be large
}

TEST(PrepareTest, WhatIsPreparedStays) {
  const PreparedModel once = Prepared(Model(Graph({PyOp({"", "x"})})));
  const PreparedModel twice = Prepared(once.bytes);
  EXPECT_EQ(twice.bytes, "");
  ASSERT_EQ(twice.python_operators.size(), 1U);
  EXPECT_EQ(twice.python_operators[0].Who(), once.python_operators[0].Who());
  EXPECT_EQ(twice.python_operators[0].input_places, (Integers{-1, 0}));
}

TEST(PrepareTest, ThePyOpOfOnnxruntimeExtensionsIsNotOurs) {
  const std::string node = Node("PyOp", "ai.onnx.contrib", {"x"}, {"y"});
  EXPECT_EQ(Prepared(Model(Graph({node}))).bytes, "");
}

TEST(PrepareTest, AddsTheOpsetImportWhereItIsMissing) {
  const std::string model = Model(Graph({PyOp()}));
  const Texts expected = {Opset("", 21), Opset("ai.opgraft", 1)};
  EXPECT_EQ(All(Prepared(model).bytes, tag::kOpsetImport), expected);
  const std::string with_import = model + Text(tag::kOpsetImport, Opset("ai.opgraft", 1));
  EXPECT_EQ(All(Prepared(with_import).bytes, tag::kOpsetImport), expected);
}

TEST(PrepareTest, AnAbsentInputKeepsItsPlace) {
  const PreparedModel prepared = Prepared(Model(Graph({PyOp({"a", "", "b", ""})})));
  EXPECT_EQ(All(NodeOf(prepared), tag::kNodeInput), (Texts{"a", "b"}));
  EXPECT_EQ(Attributes(NodeOf(prepared))["input_places"],
            IntegersAttribute("input_places", {0, -1, 1, -1}));
  EXPECT_FALSE(Attributes(NodeOf(Prepared(Model(Graph({PyOp()}))))).contains("input_places"));
}

TEST(PrepareTest, RecordsTheShapesThatTheGraphDeclares) {
  const std::string graph = Graph({PyOp({"x"}, {"y", "z", "u"})}) +
                            Text(tag::kGraphOutput, Value("y", 1, Integers{2, -1})) +
                            Text(tag::kGraphValueInfo, Value("z", 1, std::nullopt));
  const PreparedModel prepared = Prepared(Model(graph));
  EXPECT_EQ(Attributes(NodeOf(prepared))["output_shapes"],
            IntegersAttribute("output_shapes", {2, 2, -1, -1, -1}));
  EXPECT_FALSE(Attributes(NodeOf(Prepared(Model(Graph({PyOp()}))))).contains("output_shapes"));
}

TEST(PrepareTest, DeclaresTheTypeOfAnOutputThatTheGraphDoesNotName) {
  const std::string declared = Text(tag::kGraphOutput, Value("y", 1, std::nullopt));
  EXPECT_TRUE(
      All(GraphOf(Prepared(Model(Graph({PyOp()}) + declared))), tag::kGraphValueInfo).empty());
  const Texts expected = {Value("y", 1, std::nullopt)};
  EXPECT_EQ(All(GraphOf(Prepared(Model(Graph({PyOp()})))), tag::kGraphValueInfo), expected);
}

TEST(PrepareTest, DeclaresTheTypeOfAnOutputThatTheGraphNamesWithoutAType) {
  const std::string untyped = Text(tag::kGraphOutput, Value("y", 0, std::nullopt));
  const PreparedModel prepared = Prepared(Model(Graph({PyOp()}) + untyped));
  EXPECT_EQ(All(GraphOf(prepared), tag::kGraphValueInfo), Texts{Value("y", 1, std::nullopt)});
}

TEST(PrepareTest, ATypeThatClashesWithTheGraphIsRefused) {
  const std::string graph = Graph({PyOp()}) + Text(tag::kGraphOutput, Value("y", 7, std::nullopt));
  ExpectRefused(Model(graph), {"my.module.Class", "'y' is", "float32", "int64"});
}

TEST(PrepareTest, AnAttributeOfTheWrongKindIsNamed) {
  const std::string number = Node("PyOp", "", {}, {}, IntegersAttribute("module", {1}));
  ExpectRefused(Model(Graph({number})),
                {"attribute 'module' is of ONNX's kind INTS, expected a string"});
  const std::string text = Node("PyOp", "", {}, {}, TextAttribute("output_types", "float"));
  ExpectRefused(Model(Graph({text})),
                {"'output_types' is of ONNX's kind STRING, expected a list of integers"});
  const std::string canonical =
      Node("PyOp", "ai.opgraft", {}, {},
           IntegersAttribute("format", {}) + IntegersAttribute("output_shapes", {5}));
  ExpectRefused(Model(Graph({canonical})),
                {"'output_shapes' is of ONNX's kind INTS, expected a list of ranks"});
}

TEST(PrepareTest, APyOpInASubgraphIsDeclaredThere) {
  const PreparedModel prepared = Prepared(Model(Graph({If(Graph({PyOp()}))})));
  EXPECT_TRUE(All(GraphOf(prepared), tag::kGraphValueInfo).empty());
  const std::string attribute = All(NodeOf(prepared), tag::kNodeAttribute).at(0);
  const std::string subgraph = All(attribute, tag::kAttributeGraph).at(0);
  EXPECT_EQ(All(subgraph, tag::kGraphValueInfo), Texts{Value("y", 1, std::nullopt)});
  const std::string node = All(subgraph, tag::kGraphNode).at(0);
  EXPECT_EQ(All(node, tag::kNodeDomain), Texts{"ai.opgraft"});
}

TEST(PrepareTest, LowersTheIrVersionAndTheOpset) {
  const std::string add = Node("Add", "", {"x", "x"}, {"y"});
  const std::string model = Model(Graph({add}), 25, 13) + Function("f", add, 24) +
                            Text(tag::kOpsetImport, Opset("my.domain", 99));
  const std::string bytes = Prepared(model).bytes;
  EXPECT_TRUE(bytes.starts_with(Integer(tag::kIrVersion, 10)));
  EXPECT_EQ(All(bytes, tag::kOpsetImport), (Texts{Opset("", 21), Opset("my.domain", 99)}));
  const std::string function = All(bytes, tag::kFunctions).at(0);
  EXPECT_EQ(All(function, tag::kFunctionOpsetImport), Texts{Opset("", 21)});
  EXPECT_EQ(Prepared(model, "1.24.4").bytes, "");
}

TEST(PrepareTest, AnOperatorInTheWayOfLoweringIsNamed) {
  const std::string cast = Node("Cast", "", {"x"}, {"y"}, TextAttribute("round_mode", "up"));
  const std::string scatter = Node("TensorScatter", "ai.onnx", {"x"}, {"y"});
  const Texts words = {"'m.onnx'", "opset 25", kOldRuntime, "at most 21",
                       "have changed in between: Cast with 'round_mode' (since opset 24), "
                       "TensorScatter (since"};
  ExpectRefused(Model(Graph({Node("Sin", "", {"x"}, {"x2"}), scatter, If(Graph({cast}))}), 25),
                words);
  ExpectRefused(Model("", 21) + Function("f", cast, 24), {"have changed in between: Cast"});
  const std::string other_domain = Node("TensorScatter", "my.domain", {"x"}, {"y"});
  EXPECT_NE(Prepared(Model(Graph({other_domain, Node("Sin", "", {"x"}, {"y"})}), 25)).bytes, "");
}

TEST(PrepareTest, AVersionThatNobodyKnowsIsRefused) {
  const std::string sin = Graph({Node("Sin", "", {"x"}, {"y"})});
  EXPECT_NE(Prepared(Model(sin, 21, kNewestKnownIr)).bytes, "");
  ExpectRefused(Model(sin, 21, kNewestKnownIr + 1), {"'m.onnx'", "IR version 15", "14", "Fix: "});
  PreparedModel prepared;
  const Status status = Prepare(Model(sin, 99), "m", "1.31.1", no_operators, &prepared);
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_NE(status.message().find("does not know whether"), std::string::npos);
  EXPECT_EQ(prepared.opset_limit, 0);  // no converter could be trusted
}

TEST(PrepareTest, TellsAHostThatCanConvertWhatToConvertTo) {
  PreparedModel prepared;
  const std::string model = Model(Graph({Node("TensorScatter", "", {"x"}, {"y"})}), 25);
  EXPECT_FALSE(Prepare(model, "m", "1.22.1", no_operators, &prepared).ok());
  EXPECT_EQ(prepared.opset_limit, 22);
  EXPECT_TRUE(Prepare(model, "m", "1.31.1", no_operators, &prepared).ok());
  EXPECT_EQ(prepared.opset_limit, 0);
}

TEST(PrepareTest, LowersTheRuntimesOwnDomainToItsOnlyVersion) {
  const std::string imports = Text(tag::kOpsetImport, Opset("com.microsoft", 5));
  const PreparedModel prepared =
      Prepared(Model(Graph({Node("Gelu", "com.microsoft", {"x"}, {"y"})})) + imports);
  EXPECT_EQ(All(prepared.bytes, tag::kOpsetImport),
            (Texts{Opset("", 21), Opset("com.microsoft", 1)}));
}

TEST(PrepareTest, AMachineLearningOpsetThatIsNotKnownIsLoweredOnlyWhereItIsNotUsed) {
  const std::string import = Text(tag::kOpsetImport, Opset("ai.onnx.ml", 6));
  const PreparedModel prepared = Prepared(Model("") + import);
  EXPECT_EQ(All(prepared.bytes, tag::kOpsetImport), (Texts{Opset("", 21), Opset("ai.onnx.ml", 5)}));
  const std::string scaler = Graph({Node("Scaler", "ai.onnx.ml", {"x"}, {"y"})});
  ExpectRefused(Model(scaler) + import, {"ai.onnx.ml opset 6", "at most 5", "Scaler"});
}

TEST(PrepareTest, TellsWhereWeightsLieOutside) {
  const auto initializer = [](std::int64_t location) {
    return Text(tag::kGraphInitializer, Integer(tag::kTensorDataLocation, location));
  };
  EXPECT_TRUE(Prepared(Model(initializer(0) + initializer(1))).has_external_data);
  EXPECT_TRUE(Prepared(Model(Graph({If(initializer(1))}))).has_external_data);
  EXPECT_FALSE(Prepared(Model(initializer(0))).has_external_data);
}

TEST(PrepareTest, TellsThatAConstantLiesOutside) {
  constexpr std::uint32_t kAttributeTensor = 5;
  const std::string tensor = Integer(tag::kTensorDataLocation, tag::kExternal);
  const std::string value = Attribute("value", 4, Text(kAttributeTensor, tensor));
  const std::string constant = Node("Constant", "", {}, {"x"}, value);
  EXPECT_TRUE(Prepared(Model(Graph({constant, PyOp()}))).has_external_data);
}

TEST(PrepareTest, BytesThatAreNoModelAreRefused) {
  const std::string graph = Text(tag::kGraph, Graph({PyOp()}));
  const std::string import = Text(tag::kOpsetImport, Opset("", 21));
  ExpectRefused("", {"'m.onnx' is not an ONNX model", "no graph"});
  ExpectRefused("not a model", {"'m.onnx' is not an ONNX model"});
  ExpectRefused(import, {"no graph"});
  ExpectRefused(graph, {"no opset import"});
  ExpectRefused(graph + graph + import, {"'m.onnx' has two graphs"});
  ExpectRefused(Integer(tag::kGraph, 1) + import, {"wrong wire type"});
}

TEST(PrepareTest, EveryTruncationIsRefused) {
  const std::string value = Text(tag::kGraphOutput, Value("y", 1, Integers{2, -1}));
  const std::string model = Model(Graph({PyOp({"a", ""}), If(Graph({PyOp()}))}) + value);
  Prepared(model);
  for (std::size_t size = 0; size < model.size(); ++size) ExpectRefused(model.substr(0, size), {});
}

TEST(PrepareTest, NoChangedByteDoesWorse) {
  const std::string value = Text(tag::kGraphOutput, Value("y", 1, Integers{2, -1}));
  const std::string model = Model(Graph({PyOp({"a", ""}), If(Graph({PyOp()}))}) + value);
  for (std::size_t position = 0; position < model.size(); ++position) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = model;
      changed[position] = static_cast<char>(byte);
      PreparedModel prepared;
      const Status status = Prepare(changed, "'m.onnx'", kOldRuntime, no_operators, &prepared);
      ASSERT_TRUE(status.ok() || status.kind() == ErrorKind::kModel) << position << ": " << byte;
    }
  }
}

TEST(PrepareTest, GraphsAreNestedToALimit) {
  const auto nested = [](int depth) {
    std::string graph = Graph({PyOp()});
    for (int i = 0; i < depth; ++i) graph = Graph({If(graph)});
    return Model(graph);
  };
  EXPECT_EQ(Prepared(nested(64)).python_operators.size(), 1U);
  ExpectRefused(nested(65), {"'m.onnx'", "nested more than 64 deep"});
  ExpectRefused(nested(3000), {"nested more than 64 deep"});
}

}  // namespace
}  // namespace opgraft::model
