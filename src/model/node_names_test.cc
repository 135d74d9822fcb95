#include "model/node_names.h"

#include <gtest/gtest.h>

#include "model/prepare.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

std::string Named(const std::string& node, const std::string& name) {
  return node + Text(tag::kNodeName, name);
}

TEST(NodeNamesTest, NoNameIsGivenTwice) {
  const std::string inner = Graph({Named(Node("Abs", "", {"x"}, {"y"}), "a_2")});
  const std::string graph = Graph({Named(If(inner), "taken")});
  NodeNames names(graph);
  EXPECT_EQ(names.Give("a"), "a");
  EXPECT_EQ(names.Give("a"), "a_3");
  EXPECT_EQ(names.Give("a"), "a_4");
  EXPECT_EQ(names.Give("a_4"), "a_4_2");
  EXPECT_EQ(names.Give("taken"), "taken_2");
  EXPECT_EQ(names.Give("taken"), "taken_3");
}

TEST(NodeNamesTest, NodesWithoutNamesGetDifferentOnes) {
  const std::string model =
      Model(Graph({PyOp({"x"}, {}), If(Graph({PyOp({"x"}, {}), PyOp({"x"}, {"y"})})),
                   Named(PyOp({"x"}, {}), "PyOp_2"), PyOp({"x"}, {"y"})}));
  NoOperators no_operators;
  PreparedModel prepared;
  ASSERT_TRUE(Prepare(model, "'m.onnx'", "1.19.2", no_operators, &prepared).ok());
  Texts names;
  for (const pyop::Spec& spec : prepared.python_operators) names.push_back(spec.node);
  EXPECT_EQ(names, (Texts{"PyOp", "PyOp_3", "PyOp_y", "PyOp_2", "PyOp_y_2"}));
}

}  // namespace
}  // namespace opgraft::model
