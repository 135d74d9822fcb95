#include "model/function_bodies.h"

#include <gtest/gtest.h>

#include <limits>

#include "model/functions.h"
#include "model/opset_changes.h"
#include "model/prepare.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

std::string IntegerAttribute(const std::string& name, std::int64_t value) {
  return Attribute(name, tag::kInt, Integer(tag::kAttributeInt, value));
}

Status Find(const std::string& node, std::string* function, std::int64_t version = 28) {
  DeclaredValues declared;
  const std::string graph = Text(tag::kGraphInput, Value("x", 6, Integers{4}));
  declared.Read(graph);
  return FindBody(node, ReadHead(node), version, declared, "'m.onnx'", function);
}

TEST(FunctionBodiesTest, TheTablesAreForTheNewestKnownOpset) {
  EXPECT_TRUE(HasBody("", "SwiGLU", NewestKnownOpset()));
  EXPECT_FALSE(HasBody("", "SwiGLU", NewestKnownOpset() + 1));
}

TEST(FunctionBodiesTest, AnOperatorHasOneFromItsVersionOn) {
  EXPECT_TRUE(HasBody("", "Swish", 24));
  EXPECT_TRUE(HasBody("ai.onnx", "Swish", 28));
  EXPECT_FALSE(HasBody("", "Swish", 23));
  EXPECT_FALSE(HasBody("my.domain", "Swish", 24));
  EXPECT_FALSE(HasBody("", "MatMul", 28));
  EXPECT_TRUE(HasBody("ai.onnx.preview", "FlexAttention", 1));
  EXPECT_FALSE(HasBody("", "FlexAttention", 1));
}

TEST(FunctionBodiesTest, EveryFixedBodyCanBeRead) {
  for (const char* name : {"AffineGrid",
                           "BlackmanWindow",
                           "Celu",
                           "Elu",
                           "GreaterOrEqual",
                           "HammingWindow",
                           "HannWindow",
                           "HardSigmoid",
                           "HardSwish",
                           "LeakyRelu",
                           "LessOrEqual",
                           "MeanVarianceNormalization",
                           "Mish",
                           "PRelu",
                           "ReduceL1",
                           "ReduceL2",
                           "ReduceLogSum",
                           "ReduceLogSumExp",
                           "ReduceSumSquare",
                           "Relu",
                           "Selu",
                           "Shrink",
                           "Softplus",
                           "Softsign",
                           "SwiGLU",
                           "Swish",
                           "ThresholdedRelu"}) {
    std::string function;
    const Status status = Find(Node(name, "", {"x", "x"}, {"y"}), &function);
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
    EXPECT_FALSE(ReadFunction(function).nodes.empty()) << name;
  }
}

TEST(FunctionBodiesTest, ANodeThatDoesNotFitIsNamed) {
  const auto refusal = [](const std::string& node) {
    std::string function;
    const Status status = Find(node, &function);
    EXPECT_EQ(status.kind(), ErrorKind::kModel);
    EXPECT_TRUE(function.empty());
    return status.message();
  };
  EXPECT_EQ(refusal(Node("BitShift", "", {"x", "x"}, {"y"})),
            "'m.onnx', node 'BitShift_y', operator BitShift: its attribute 'direction' is neither "
            "'LEFT' nor 'RIGHT'");
  const std::string left = TextAttribute("direction", "LEFT");
  EXPECT_NE(refusal(Node("BitShift", "", {"unknown", "x"}, {"y"}, left))
                .find("depends on the type of 'unknown'"),
            std::string::npos);
  EXPECT_NE(refusal(Node("SpaceToDepth", "", {"x"}, {"y"}, IntegerAttribute("blocksize", -2)))
                .find("'blocksize' is -2, expected at least 1"),
            std::string::npos);
  EXPECT_NE(refusal(Node("SwiGLU", "", {"x", "x"}, {"y"}, left)).find("'direction'"),
            std::string::npos);
  EXPECT_NE(refusal(Node("SwiGLU", "", {"x", ""}, {"y"})).find("input 1 is absent"),
            std::string::npos);
}

TEST(FunctionBodiesTest, AnyNumberIsABodyOrAnError) {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 31U,
        std::int64_t{1} << 62U, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    for (const auto& [op_type, attribute] :
         {std::pair("SpaceToDepth", "blocksize"), std::pair("LinearAttention", "q_num_heads"),
          std::pair("Attention", "right_window_size"), std::pair("Attention", "q_num_heads"),
          std::pair("RotaryEmbedding", "rotary_embedding_dim"),
          std::pair("RMSNormalization", "axis"), std::pair("Mod", "fmod")}) {
      std::string function;
      const Status status =
          Find(Node(op_type, "", {"x", "x", "x"}, {"y"}, IntegerAttribute(attribute, number)),
               &function);
      EXPECT_TRUE(status.ok() || status.kind() == ErrorKind::kModel) << status.message();
    }
  }
}

TEST(FunctionBodiesTest, NodesOfABodyGoDownTheLadder) {
  NoOperators no_operators;
  PreparedModel prepared;
  const std::string model = Model(Graph({Node("SwiGLU", "", {"a", "b"}, {"y"})}), 28);
  ASSERT_TRUE(Prepare(model, "m", "1.31.1", no_operators, &prepared).ok());
  EXPECT_EQ(prepared.bytes.find("SwiGLU\""), std::string::npos);
  for (const std::string& node : All(All(prepared.bytes, tag::kGraph).at(0), tag::kGraphNode)) {
    EXPECT_NE(All(node, tag::kNodeOpType), Texts{"Swish"});
  }
  ASSERT_EQ(prepared.rescues.size(), 1U);
  EXPECT_EQ(prepared.rescues[0].cost, "6 nodes");
}

TEST(FunctionBodiesTest, ABodyMayUseItsOperatorInThePreviousVersion) {
  NoOperators no_operators;
  PreparedModel prepared;
  const std::string node =
      Node("BitShift", "", {"x", "x"}, {"y"}, TextAttribute("direction", "RIGHT"));
  const std::string graph = Graph({node}) + Text(tag::kGraphInput, Value("x", 6, Integers{4}));
  ASSERT_TRUE(Prepare(Model(graph, 28), "m", "1.31.1", no_operators, &prepared).ok());
  std::size_t shifts = 0;
  for (const std::string& one : All(All(prepared.bytes, tag::kGraph).at(0), tag::kGraphNode)) {
    shifts += static_cast<std::size_t>(All(one, tag::kNodeOpType) == Texts{"BitShift"});
  }
  EXPECT_EQ(shifts, 1U);
}

TEST(FunctionBodiesTest, NoChangedByteDoesWorse) {
  NoOperators no_operators;
  const std::string model =
      Model(Graph({Node("LinearAttention", "", {"a", "b", "c"}, {"y"},
                        IntegerAttribute("q_num_heads", 2) + IntegerAttribute("kv_num_heads", 1) +
                            TextAttribute("update_rule", "linear")),
                   If(Graph({Node("SwiGLU", "", {"a", "b"}, {"z"})}))}),
            28);
  for (std::size_t position = 0; position < model.size(); ++position) {
    for (int byte = 0; byte < 256; byte += 5) {
      std::string changed = model;
      changed[position] = static_cast<char>(byte);
      PreparedModel prepared;
      const Status status = Prepare(changed, "m", "1.31.1", no_operators, &prepared);
      ASSERT_TRUE(status.ok() || status.kind() == ErrorKind::kModel) << position << ": " << byte;
    }
  }
}

}  // namespace
}  // namespace opgraft::model
