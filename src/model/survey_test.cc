// Tests of what a survey finds in a model, and of its behaviour for bytes that are not a model.
#include "model/survey.h"

#include <gtest/gtest.h>

#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

Survey Take(const std::string& model, std::string_view runtime = "1.31.1") {
  Survey survey;
  const Status status = TakeSurvey(model, "the model", runtime, &survey);
  EXPECT_TRUE(status.ok()) << status.message();
  return survey;
}

TEST(Survey, NodesOfOneOperatorAreOneEntry) {
  const std::string declared = Text(tag::kGraphValueInfo, Value("x", 1, Integers{2})) +
                               Text(tag::kGraphValueInfo, Value("i", 7, std::nullopt));
  const Survey survey =
      Take(Model(Graph({Node("Mystery", "far", {"x", "i"}, {"a"}, TextAttribute("mode", "m")),
                        Node("Mystery", "far", {"x"}, {"b"}, IntegersAttribute("axes", {1})),
                        Node("Mystery", "far", {"i", ""}, {"c"}), PyOp()}) +
                 declared));
  ASSERT_EQ(survey.operators.size(), 2);
  const SurveyedOperator& found = survey.operators[0];
  EXPECT_EQ(found.domain + "::" + found.op_type, "far::Mystery");
  EXPECT_EQ(found.count, 3);
  ASSERT_EQ(found.inputs.size(), 2);
  EXPECT_EQ(found.inputs[0].element_type, 0);  // one node has float32, another int64
  EXPECT_EQ(found.inputs[0].count, 3);
  EXPECT_EQ(found.inputs[1].element_type, 7);
  EXPECT_EQ(found.inputs[1].count, 1);
  ASSERT_EQ(found.attributes.size(), 2);
  EXPECT_EQ(found.attributes.at("mode").type, tag::kString);
  EXPECT_EQ(found.attributes.at("axes").count, 1);
  EXPECT_EQ(found.nodes[1].name, "Mystery_b");
  EXPECT_TRUE(survey.operators[1].is_pyop);
  EXPECT_EQ(survey.operators[1].module + "." + survey.operators[1].class_name, "my.module.Class");
}

TEST(Survey, SaysWhereNodesStand) {
  const std::string mystery = Node("Mystery", "far", {"x"}, {"y"});
  std::string inner = If(Graph({mystery}));
  inner += Text(tag::kNodeName, "inner");
  const Survey survey = Take(Model(Graph({If(Graph({inner}))})) +
                             Function("f", If(Graph({mystery}))) + Function("g", mystery));
  for (const SurveyedOperator& found : survey.operators) {
    if (found.op_type != "Mystery") continue;
    ASSERT_EQ(found.nodes.size(), 3);
    EXPECT_EQ(found.nodes[0].place, "then_branch of 'inner' in then_branch of 'If_y'");
    EXPECT_EQ(found.nodes[1].place, "then_branch of 'If_y' in function f");
    EXPECT_EQ(found.nodes[2].place, "function g");
    return;
  }
  FAIL();
}

TEST(Survey, TellsTheModelsOwnFunctions) {
  const Survey survey =
      Take(Model(Graph({Node("f", "", {"x"}, {"y"})})) + Function("f", Node("Neg", "", {}, {})));
  EXPECT_TRUE(survey.operators[0].is_function);
  EXPECT_FALSE(survey.operators[1].is_function);
}

TEST(Survey, TellsVersionsAndWhatHasChanged) {
  const Survey survey = Take(Model(
      Graph({Node("SwiGLU", "", {"x"}, {"y"}), Node("Neg", "ai.onnx", {"x"}, {"z"})}), 28, 14));
  EXPECT_EQ(survey.ir_version, 14);
  EXPECT_EQ(survey.ir_limit, 13);
  ASSERT_EQ(survey.imports.size(), 1);
  EXPECT_EQ(survey.imports[0].version, 28);
  EXPECT_EQ(survey.imports[0].limit, 26);
  EXPECT_EQ(survey.operators[0].differences, std::set<std::string>{"SwiGLU (since opset 28)"});
  EXPECT_TRUE(survey.operators[1].differences.empty());
  EXPECT_EQ(survey.operators[1].domain, "");
}

TEST(Survey, NeverFailsWorseThanByAStatus) {
  std::string nested = Graph({PyOp()});
  for (int i = 0; i < 1000; ++i) nested = Graph({If(nested)});
  Survey survey;
  EXPECT_EQ(TakeSurvey(Model(nested), "m", "1.31.1", &survey).kind(), ErrorKind::kModel);
  const std::string model = Model(Graph({PyOp(), If(Graph({PyOp()}))}));
  for (std::size_t length = 0; length < model.size(); ++length) {
    const Status status = TakeSurvey(model.substr(0, length), "m", "1.31.1", &survey);
    EXPECT_TRUE(status.ok() || status.kind() == ErrorKind::kModel) << length;
  }
  EXPECT_FALSE(TakeSurvey(model, "m", "1.18.0", &survey).ok());
}

TEST(Survey, OperatorsOfTorchAreTold) {
  const auto aten = [](const std::string& attributes) {
    return Node("ATen", "org.pytorch.aten", {"x"}, {"y"}, attributes);
  };
  const auto in_python = [](const std::string& attributes) {
    return Node("PyOp", "any", {"x"}, {"y"},
                TextAttribute("module", "opgraft.torch.operators") +
                    TextAttribute("class_name", "TorchOperator") +
                    IntegersAttribute("output_types", {1}) + attributes);
  };
  const std::string clip = TextAttribute("operator", "acme::clip");
  const std::string other = "of_a_class_that_is_not_ours";
  const Survey survey = Take(Model(Graph(
      {aten(TextAttribute("operator", "aten::median") + TextAttribute("overload_name", "dim")),
       aten(TextAttribute("operator", "cdist")), aten(TextAttribute("operator", "cdist")),
       Node("sort", "org.pytorch.aten", {"x"}, {"y"}), aten(""),
       in_python(clip + TextAttribute("defined_in", "acme.operators")), in_python(clip),
       Node("PyOp", "any", {"x"}, {"y"},
            TextAttribute("module", other) + TextAttribute("class_name", "TorchOperator") +
                IntegersAttribute("output_types", {1}) + clip)})));
  std::vector<std::string> found;
  for (const SurveyedOperator& entry : survey.operators) {
    found.push_back(entry.torch_operator + " " + entry.defined_in + " " +
                    std::to_string(entry.count));
  }
  EXPECT_EQ(found, (Texts{"aten::median.dim  1", "aten::cdist  2", "aten::sort  1", "  1",
                          "acme::clip acme.operators 1", "acme::clip  1", "  1"}));
}

/// The positions in a prepared node may be any numbers, and are looked up among its inputs.
TEST(Survey, PlacesThatAreNone) {
  const std::string attributes = Attribute("format", tag::kInt, Integer(tag::kAttributeInt, 1)) +
                                 TextAttribute("module", "m") + TextAttribute("class_name", "C") +
                                 IntegersAttribute("output_types", {1}) +
                                 IntegersAttribute("input_places", {99, -7, 0});
  const Survey survey = Take(Model(Graph({Node("PyOp", "ai.opgraft", {"x"}, {"y"}, attributes)})));
  ASSERT_EQ(survey.operators[0].inputs.size(), 3);
  EXPECT_EQ(survey.operators[0].inputs[2].name, "x");
}

}  // namespace
}  // namespace opgraft::model
