#include "model/islands.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "model/test_models.h"
#include "model/type_inference.h"

namespace opgraft::model {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kBf16 = 16;

/// The nodes of a graph as texts: "y = Add(a, b)".
Texts NodesOf(const std::string& graph) {
  Texts nodes;
  for (const std::string& node : All(graph, tag::kGraphNode)) {
    std::string text;
    for (const std::string& name : All(node, tag::kNodeOutput)) {
      text += (text.empty() ? "" : ", ") + name;
    }
    text += " = " + All(node, tag::kNodeOpType).at(0) + "(";
    bool is_first = true;
    for (const std::string& name : All(node, tag::kNodeInput)) {
      text += (is_first ? "" : ", ") + name;
      is_first = false;
    }
    nodes.push_back(text + ")");
  }
  return nodes;
}

std::string In(const std::string& name, std::int64_t type) {
  return Text(tag::kGraphInput, Value(name, type, std::nullopt));
}
std::string Out(const std::string& name, std::int64_t type) {
  return Text(tag::kGraphOutput, Value(name, type, std::nullopt));
}
std::string Weight(const std::string& name, std::int64_t type) {
  return Text(tag::kGraphInitializer,
              Integer(tag::kTensorDataType, type) + Text(tag::kTensorName, name));
}

/// Has a kernel if no input or output of the node has one of these types.
class Lacks final : public KernelProbe {
 public:
  explicit Lacks(std::set<ValueType> types, std::set<std::string> having = {},
                 std::string conditions = "")
      : types_(std::move(types)), having_(std::move(having)), conditions_(std::move(conditions)) {}

  bool Loads(std::string_view model) override {
    ++asked;
    const std::string graph = All(model, tag::kGraph).at(0);
    if (having_.contains(All(All(graph, tag::kGraphNode).at(0), tag::kNodeOpType).at(0))) {
      return true;
    }
    for (const std::uint32_t side : {tag::kGraphInput, tag::kGraphOutput}) {
      for (const std::string& value : All(graph, side)) {
        if (types_.contains(ReadNamedType(value).second)) return false;
      }
    }
    return true;
  }

  std::string Conditions() const override { return conditions_; }

  int asked = 0;

 private:
  const std::set<ValueType> types_;
  const std::set<std::string> having_;
  const std::string conditions_;
};

Islands Made(const std::string& model, Lacks lacks = Lacks({kBf16}), bool rounds_each = false) {
  Islands islands;
  const Status status = MakeIslands({.model = model,
                                     .origin = "'m.onnx'",
                                     .runtime_version = "1.31.1",
                                     .rounds_each = rounds_each,
                                     .probe = &lacks},
                                    &islands);
  EXPECT_TRUE(status.ok()) << status.message();
  return islands;
}

Texts Rescued(const std::string& graph, const Lacks& lacks = Lacks({kBf16}),
              bool rounds_each = false) {
  const Islands islands = Made(Model(graph), lacks, rounds_each);
  return islands.bytes.empty() ? Texts() : NodesOf(All(islands.bytes, tag::kGraph).at(0));
}

const std::string kLayer =
    Graph({Node("MatMul", "", {"x", "w"}, {"a"}), Node("Add", "", {"a", "b"}, {"y"})}) +
    In("x", kBf16) + Weight("w", kBf16) + Weight("b", kBf16) + Out("y", kBf16);

TEST(IslandsTest, NeighboursShareOneIsland) {
  EXPECT_EQ(Rescued(kLayer),
            (Texts{"x.float32 = Cast(x)", "w.float32 = Cast(w)",
                   "a.float32 = MatMul(x.float32, w.float32)", "b.float32 = Cast(b)",
                   "y.float32 = Add(a.float32, b.float32)", "y = Cast(y.float32)"}));
}

TEST(IslandsTest, ReportsWhatWasDone) {
  const Islands islands = Made(Model(kLayer));
  ASSERT_EQ(islands.rescues.size(), 2U);
  EXPECT_EQ(islands.rescues[0].node, "MatMul_a");
  EXPECT_EQ(islands.rescues[0].operator_name, "MatMul");
  EXPECT_EQ(islands.rescues[0].rung, "float32 instead of bfloat16");
  EXPECT_EQ(islands.rescues[0].cost, "2 Casts");
  EXPECT_EQ(islands.rescues[0].native_from, "a kernel for bfloat16 in ONNX Runtime");
  EXPECT_EQ(islands.rescues[1].cost, "2 Casts");  // of b, and of y back
  EXPECT_TRUE(islands.refused.empty());
}

TEST(IslandsTest, ExactRoundsEachResult) {
  EXPECT_EQ(Rescued(kLayer, Lacks({kBf16}), true),
            (Texts{"x.float32 = Cast(x)", "w.float32 = Cast(w)",
                   "a.float32 = MatMul(x.float32, w.float32)", "a = Cast(a.float32)",
                   "a.float32_2 = Cast(a)", "b.float32 = Cast(b)",
                   "y.float32 = Add(a.float32_2, b.float32)", "y = Cast(y.float32)"}));
}

TEST(IslandsTest, WhatIsComparedOrRoundedIsRoundedFirst) {
  for (const char* const name : {"Floor", "Sign", "ThresholdedRelu"}) {
    const std::string graph = Graph({Node("Exp", "", {"x"}, {"a"}), Node(name, "", {"a"}, {"y"})}) +
                              In("x", kBf16) + Out("y", kBf16);
    EXPECT_EQ(Rescued(graph),
              (Texts{"x.float32 = Cast(x)", "a.float32 = Exp(x.float32)", "a = Cast(a.float32)",
                     "a.float32_2 = Cast(a)", std::string("y.float32 = ") + name + "(a.float32_2)",
                     "y = Cast(y.float32)"}));
  }
}

TEST(IslandsTest, MovingFollowsTheValueAndShapesNeedNoCast) {
  const std::string graph =
      Graph({Node("Transpose", "", {"w"}, {"t"}), Node("Exp", "", {"t"}, {"a"}),
             Node("Transpose", "", {"a"}, {"b"}), Node("Shape", "", {"b"}, {"s"}),
             Node("Exp", "", {"b"}, {"y"})}) +
      Weight("w", kBf16) + Out("y", kBf16) + Out("s", 7);
  EXPECT_EQ(Rescued(graph, Lacks({kBf16}, {"Transpose", "Shape"})),
            (Texts{"t = Transpose(w)", "t.float32 = Cast(t)", "a.float32 = Exp(t.float32)",
                   "b.float32 = Transpose(a.float32)", "s = Shape(b.float32)",
                   "y.float32 = Exp(b.float32)", "y = Cast(y.float32)"}));
}

TEST(IslandsTest, IntegersAreCutAfterEachNode) {
  const std::string graph =
      Graph({Node("Add", "", {"x", "x"}, {"a"}), Node("Div", "", {"a", "x"}, {"y"})}) + In("x", 5) +
      Out("y", 5);
  EXPECT_EQ(
      Rescued(graph, Lacks({5})),
      (Texts{"x.int32 = Cast(x)", "a.int32 = Add(x.int32, x.int32)", "a = Cast(a.int32)",
             "a.int32_2 = Cast(a)", "y.int32 = Div(a.int32_2, x.int32)", "y = Cast(y.int32)"}));
}

TEST(IslandsTest, ProductsAndUint32NeedInt64) {
  const auto one = [](const std::string& name, std::int64_t type) {
    return Graph({Node(name, "", {"x", "x"}, {"y"})}) + In("x", type) + Out("y", type);
  };
  EXPECT_EQ(Rescued(one("Mul", 4), Lacks({4})),
            (Texts{"x.int64 = Cast(x)", "y.int64 = Mul(x.int64, x.int64)", "y = Cast(y.int64)"}));
  EXPECT_EQ(Rescued(one("Add", 12), Lacks({12}))[1], "y.int64 = Add(x.int64, x.int64)");
  EXPECT_EQ(Rescued(one("BitShift", 4), Lacks({4}))[1], "y.uint32 = BitShift(x.uint32, x.uint32)");
}

TEST(IslandsTest, WhatWouldGiveAnotherResultIsRefusedByName) {
  struct Case {
    const char* operator_name;
    std::int64_t type;
    const char* why;
  };
  const Case cases[] = {
      {"Add", 13, "has a wider type"},          // uint64
      {"Add", 11, "has a wider type"},          // float64
      {"Add", 7, "has a wider type"},           // int64
      {"ReduceMax", 3, "its result could be"},  // of nothing it gives the limit of the type
      {"MaxPool", 3, "its result could be"},   {"QuantizeLinear", kBf16, "its result could be"},
  };
  for (const Case& one : cases) {
    const bool is_quantized = std::string(one.operator_name) == "QuantizeLinear";
    const std::string graph = Graph({Node(one.operator_name, "", {"x", "x"}, {"y"})}) +
                              In("x", one.type) + Out("y", is_quantized ? 2 : one.type);
    const Islands islands = Made(Model(graph), Lacks({one.type}));
    EXPECT_EQ(islands.bytes, "") << one.operator_name;
    ASSERT_EQ(islands.refused.size(), 1U) << one.operator_name;
    EXPECT_EQ(islands.refused[0].node, std::string(one.operator_name) + "_y");
    EXPECT_EQ(islands.refused[0].operator_name, one.operator_name);
    EXPECT_NE(islands.refused[0].reason.find(one.why), std::string::npos)
        << islands.refused[0].reason;
    EXPECT_NE(WhyRefused(islands.refused, "1.31.1").find("node '" + islands.refused[0].node + "'"),
              std::string::npos);
  }
}

TEST(IslandsTest, GraphsInsideANodeTakePart) {
  const std::string branch = Graph({Node("Add", "", {"a", "w"}, {"c"})}) + Out("c", kBf16);
  const std::string graph = Graph({Node("Exp", "", {"x"}, {"a"}), If(branch)}) + In("x", kBf16) +
                            In("condition", 9) + Weight("w", kBf16) + Out("y", kBf16);
  const Islands islands = Made(Model(graph));
  const std::string written = All(islands.bytes, tag::kGraph).at(0);
  // The weight is cast once, outside of the branch.
  EXPECT_EQ(NodesOf(written), (Texts{"x.float32 = Cast(x)", "a.float32 = Exp(x.float32)",
                                     "w.float32 = Cast(w)", "y = If(condition)"}));
  const std::string attribute = All(All(written, tag::kGraphNode).at(3), tag::kNodeAttribute).at(0);
  EXPECT_EQ(NodesOf(All(attribute, tag::kAttributeGraph).at(0)),
            (Texts{"c.float32 = Add(a.float32, w.float32)", "c = Cast(c.float32)"}));
}

TEST(IslandsTest, ALoopTellsItsGraphTheTypes) {
  const std::string body =
      Graph({Node("Add", "", {"v", "v"}, {"v_out"}), Node("Identity", "", {"c"}, {"c_out"})}) +
      In("i", 0) + In("c", 0) + In("v", 0) + Out("c_out", 0) + Out("v_out", 0);
  const std::string loop = Node("Loop", "", {"", "", "x"}, {"y"},
                                Attribute("body", 5, Text(tag::kAttributeGraph, body)));
  const std::string graph =
      Graph({loop, Node("Exp", "", {"y"}, {"z"})}) + In("x", kBf16) + Out("z", 0);
  const Texts nodes = Rescued(graph);
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[2], "z.float32 = Exp(y.float32)");
}

TEST(IslandsTest, NewNamesAreFree) {
  const std::string graph =
      Graph({Node("Exp", "", {"x"}, {"x.float32"})}) + In("x", kBf16) + Out("x.float32", kBf16);
  EXPECT_EQ(Rescued(graph), (Texts{"x.float32_2 = Cast(x)", "x.float32.float32 = Exp(x.float32_2)",
                                   "x.float32 = Cast(x.float32.float32)"}));
}

TEST(IslandsTest, AttributesThatTellTheTypeAreWrittenAnew) {
  const std::string dtype = Attribute("dtype", tag::kInt, Integer(tag::kAttributeInt, kBf16));
  const std::string graph =
      Graph({Node("RandomNormalLike", "", {"x"}, {"y"}, dtype)}) + In("x", 1) + Out("y", kBf16);
  const Islands islands = Made(Model(graph));
  const std::string node = All(All(islands.bytes, tag::kGraph).at(0), tag::kGraphNode).at(0);
  EXPECT_EQ(All(node, tag::kNodeAttribute).at(0), Text(tag::kAttributeName, "dtype") +
                                                      Integer(tag::kAttributeInt, 1) +
                                                      Integer(tag::kAttributeType, tag::kInt));
}

TEST(IslandsTest, WhatHasKernelsOrIsNotOnnxsStays) {
  EXPECT_EQ(Rescued(kLayer, Lacks({})), Texts());
  const std::string foreign =
      Graph({Node("Add", "my", {"x", "x"}, {"y"})}) + In("x", kBf16) + Out("y", kBf16);
  EXPECT_EQ(Rescued(foreign), Texts());
}

TEST(IslandsTest, AnswersAreRememberedUnderTheirConditions) {
  const auto asked = [](const std::string& conditions) {
    Lacks lacks({kBf16}, {}, conditions);
    Islands islands;
    const std::string model = Model(kLayer);
    EXPECT_TRUE(
        MakeIslands({.model = model, .origin = "m", .runtime_version = "1.31.1", .probe = &lacks},
                    &islands)
            .ok());
    return lacks.asked;
  };
  EXPECT_EQ(asked("one runtime"), 4);  // two kinds of nodes, in two types
  EXPECT_EQ(asked("one runtime"), 0);
  EXPECT_EQ(asked("another"), 4);
  EXPECT_EQ(asked(""), 4);
  EXPECT_EQ(asked(""), 4);
}

TEST(IslandsTest, ACutModelIsAtWorstAnError) {
  const std::string branch = Graph({Node("Add", "", {"a", "w"}, {"c"})}) + Out("c", kBf16);
  const std::string model =
      Model(Graph({Node("Exp", "", {"x"}, {"a"}), If(branch)}) + kLayer + In("condition", 9));
  for (std::size_t size = 0; size <= model.size(); ++size) {
    for (const bool rounds_each : {false, true}) {
      Lacks lacks({kBf16});
      Islands islands;
      const Status status = MakeIslands({.model = std::string_view(model).substr(0, size),
                                         .origin = "m",
                                         .runtime_version = "1.31.1",
                                         .rounds_each = rounds_each,
                                         .probe = &lacks},
                                        &islands);
      EXPECT_TRUE(status.ok() || status.kind() == ErrorKind::kModel) << size;
      EXPECT_TRUE(status.ok() || islands.bytes.empty()) << size;
    }
  }
}

}  // namespace
}  // namespace opgraft::model
