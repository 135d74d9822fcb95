// Tests of ATen nodes in preparation; tests/torch runs the models that torch itself writes.
#include "model/legacy_aten.h"

#include <gtest/gtest.h>

#include <random>

#include "model/prepare.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

NoOperators no_operators;

std::string Constant(const std::string& name, std::int64_t integer) {
  return Node("Constant", "", {}, {name},
              Attribute("value_int", tag::kInt, Integer(tag::kAttributeInt, integer)));
}

std::string Aten(const std::string& name, const Texts& inputs, const Texts& outputs,
                 const std::string& attributes = "") {
  return Node("ATen", "org.pytorch.aten", inputs, outputs,
              TextAttribute("operator", name) + attributes);
}

std::string WithInput(const Texts& nodes) {
  return Graph(nodes) + Text(tag::kGraphInput, Value("x", 1, Integers{2, 2}));
}

/// Returns a text attribute of the last node of the prepared graph.
std::string Prepared(const std::string& graph, const std::string& attribute) {
  PreparedModel prepared;
  const Status status = Prepare(Model(graph), "'m.onnx'", "1.31.1", no_operators, &prepared);
  EXPECT_TRUE(status.ok()) << status.message();
  const std::string node = All(All(prepared.bytes, tag::kGraph).at(0), tag::kGraphNode).back();
  for (const std::string& candidate : All(node, tag::kNodeAttribute)) {
    if (All(candidate, tag::kAttributeName).at(0) == attribute) {
      return All(candidate, tag::kAttributeString).at(0);
    }
  }
  return "";
}

TEST(LegacyAtenTest, ArgumentsByTheSchema) {
  const std::string graph = WithInput(
      {Constant("k", 2), Constant("d", 1), Aten("kthvalue", {"x", "k", "d"}, {"y", "i"})});
  EXPECT_EQ(Prepared(graph, "arguments"), "(self=%0, k=2, dim=1)");
  EXPECT_EQ(Prepared(graph, "results"), "float32[...], int64[...]");
  EXPECT_EQ(Prepared(graph, "operator"), "aten::kthvalue");
}

TEST(LegacyAtenTest, TheOverloadIsTold) {
  EXPECT_EQ(Prepared(WithInput({Aten("median", {"x"}, {"y"})}), "overload_name"), "");
  const std::string graph = WithInput({Constant("d", 1), Aten("median", {"x", "d"}, {"y", "i"})});
  EXPECT_EQ(Prepared(graph, "overload_name"), "dim");
  EXPECT_EQ(Prepared(graph, "arguments"), "(self=%0, dim=1)");
}

TEST(LegacyAtenTest, SequencesAndAbsentInputs) {
  const std::string graph = WithInput(
      {Node("SequenceConstruct", "", {"x", "x"}, {"s"}), Aten("block_diag", {"s"}, {"y"})});
  EXPECT_EQ(Prepared(graph, "arguments"), "(tensors=[%0, %1])");
  EXPECT_EQ(
      Prepared(WithInput({Constant("d", 0), Aten("cumprod", {"x", "d", ""}, {"y"})}), "arguments"),
      "(self=%0, dim=0, dtype=null)");
  EXPECT_EQ(Prepared(WithInput({Aten("cumprod", {"x"}, {"y"},
                                     Attribute("dim", tag::kInt, Integer(tag::kAttributeInt, 1)))}),
                     "arguments"),
            "(self=%0, dim=1, dtype=null)");
}

TEST(LegacyAtenTest, TypesAndImportsAreAdded) {
  PreparedModel prepared;
  const std::string graph = WithInput({Aten("nonzero", {"x"}, {"y"})});
  ASSERT_TRUE(Prepare(Model(graph), "m", "1.31.1", no_operators, &prepared).ok());
  EXPECT_EQ(prepared.aten_operators, std::set<std::string>{"aten::nonzero"});
  EXPECT_EQ(All(prepared.bytes, tag::kOpsetImport).back(), Opset("org.pytorch.aten", 1));
  const Texts declared = All(All(prepared.bytes, tag::kGraph).at(0), tag::kGraphValueInfo);
  ASSERT_EQ(declared.size(), 1U);
  EXPECT_EQ(declared[0], Value("y", 7, std::nullopt));
}

TEST(LegacyAtenTest, AnyDamageIsReadOrRefused) {
  const std::string text = TextAttribute("results", "float32[...]") +
                           TextAttribute("arguments", "(%0)") +
                           Attribute("encoding", tag::kInt, Integer(tag::kAttributeInt, 1));
  const std::string model = Model(WithInput(
      {Constant("k", 2), Node("SequenceConstruct", "", {"x", "k"}, {"s"}),
       Aten("kthvalue", {"x", "k", "k"}, {"y", "i"}), Aten("cat", {"s", "k"}, {"z"}),
       Aten("lgamma", {"x"}, {"u"}, text), Node("linalg_norm", "org.pytorch.aten", {"x"}, {"v"})}));
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = model;
    for (unsigned j = 0; j <= random() % 4; ++j) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    PreparedModel prepared;
    (void)Prepare(damaged, "m", "1.31.1", no_operators, &prepared);
  }
}

}  // namespace
}  // namespace opgraft::model
