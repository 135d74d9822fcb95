// Cases that are as they should be: OpTester must find nothing.
#include <opgraft/testing.h>

#include <limits>

using opgraft::BFloat16;
using opgraft::Float16;
using opgraft::OpTester;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Right, Floats) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {2, 2}, {1, 2, -3, 0.5f}).AddAttribute("factor", 3.0f);
  test.AddOutput<float>("y", {2, 2}, {3, 6, -9, 1.5f});
  test.Run();
}

TEST(Right, AsInOnnxRuntimesTree) {
  OpTester test("Scale", 1, "test.tester");
  test.AddInput<float>("X", {2}, {1, 2});
  test.AddAttribute<float>("factor", 2.0f);
  test.AddOutput<float>("Y", {2}, {2.05f, 4.05f});
  test.SetOutputAbsErr("Y", 0.1f);
  test.SetOutputRelErr("Y", 0.0f);
  test.Run(OpTester::ExpectResult::kExpectSuccess, "");
}

TEST(Right, EveryType) {
  OpTester("test.tester::Scale")
      .AddInput<double>("x", {1}, {0.1})
      .AddOutput<double>("y", {1}, {0.2})
      .Run();
  OpTester("test.tester::Scale")
      .AddInput<Float16>("x", {2}, {0.1f, 2})
      .AddOutput<Float16>("y", {2}, {0.2f, 4})
      .Run();
  OpTester("test.tester::Scale")
      .AddInput<BFloat16>("x", {1}, {0.1f})
      .AddOutput<BFloat16>("y", {1}, {0.2f})
      .Run();
  OpTester("test.tester::Scale")
      .AddInput<std::int32_t>("x", {1}, {4})
      .AddOutput<std::int32_t>("y", {1}, {8})
      .Run();
  OpTester("test.tester::Scale")
      .AddInput<bool>("x", {2}, {true, false})
      .AddOutput<bool>("y", {2}, {true, false})
      .Run();
}

TEST(Right, NotANumberAndInfinity) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {3}, {kNan, kInfinity, -kInfinity});
  test.AddOutput<float>("y", {3}, {kNan, kInfinity, -kInfinity});
  test.Run();
}

TEST(Right, EmptyAndScalar) {
  OpTester("test.tester::Scale")
      .AddInput<float>("x", {0, 3}, {})
      .AddOutput<float>("y", {0, 3}, {})
      .Run();
  OpTester("test.tester::Scale").AddInput<float>("x", {}, {2}).AddOutput<float>("y", {}, {4}).Run();
}

TEST(Right, Strings) {
  OpTester test("test.tester::Repeat");
  test.AddInput<std::string>("x", {2}, {"a", std::string("b\0c", 3)});
  test.AddAttribute("times", 3).AddAttribute("between", "-");
  test.AddOutput<std::string>("y", {2}, {"a-a-a", std::string("b\0c-b\0c-b\0c", 11)});
  test.Run();
}

TEST(Right, Lists) {
  OpTester test("test.tester::Count");
  test.AddInput<float>("x", {1}, {0});
  test.AddAttribute("floats", {0.5f}).AddAttribute<std::vector<std::int64_t>>("integers", {1, 2});
  test.AddAttribute("tensor", opgraft::TensorValue({2, 2}, std::vector<double>{1, 2, 3, 4}));
  test.AddOutput<std::int64_t>("y", {3}, {1, 2, 4});
  test.Run();
}

TEST(Right, TextLists) {  // plain sessions have them from ONNX Runtime 1.25 on
  OpTester test("test.tester::Words");
  test.AddInput<float>("x", {1}, {0}).AddAttribute("words", {"a", "b"});
  test.AddOutput<std::string>("y", {2}, {"a", "b"});
  test.Run();
}

TEST(Right, TwoInputs) {
  OpTester test("test.tester::Multiply");
  test.AddInput<float>("a", {1, 2}, {1, 2}).AddInput<float>("b", {2, 3}, {1, 2, 3, 4, 5, 6});
  test.AddOutput<float>("c", {1, 3}, {9, 12, 15});
  test.Run();
}

TEST(Right, Omitted) {
  OpTester test("test.tester::Shift");
  test.AddInput<float>("x", {2}, {1, 2}).AddOmittedInput();
  test.AddOutput<float>("y", {2}, {2, 3}).AddOutput<std::int64_t>("count", {}, {2});
  test.Run();

  OpTester all("test.tester::Shift");
  all.AddInput<float>("x", {2}, {1, 2});
  all.AddOptionalInputEdge<float>();
  all.AddOutput<float>("y", {2}, {2, 3});
  all.AddOptionalOutputEdge<std::int64_t>();
  all.Run();
}

TEST(Right, Constant) {
  OpTester test("test.tester::Fill");
  test.AddInput<std::int64_t>("shape", {2}, {2, 1}, /*is_constant=*/true);
  test.AddOutput<float>("y", {2, 1}, {1, 1});
  test.Run();
}

TEST(Right, SymbolsOfARule) {
  OpTester test("test.tester::Twice");
  test.AddInput<float>("x", {1, 2}, {1, 2}).AddOutput<float>("y", {2, 2}, {1, 2, 1, 2});
  test.Run();
}

TEST(Right, Failure) {
  OpTester test("test.tester::Refuse");
  test.AddInput<float>("x", {1}, {1}).AddOutput<float>("y", {1}, {1});
  test.ExpectFailure("the matrix is singular");
  test.Run(OpTester::ExpectResult::kExpectFailure, "singular");
}

TEST(Right, Shapes) {
  OpTester product("test.tester::Multiply");
  product.AddInputShape<float>("a", {"n", 3}).AddInputShape<float>("b", {3, "m"});
  product.AddOutputShape<float>("c", {"n", "m"});
  product.InferShapes();

  OpTester unknown("test.tester::Multiply");
  unknown.AddInputOfUnknownRank<float>("a").AddInputShape<float>("b", {3, "m"});
  unknown.AddOutputOfUnknownRank<float>("c");
  unknown.InferShapes();

  OpTester twice("test.tester::Twice");
  twice.AddInputShape<float>("x", {"n", "?"}).AddOutputShape<float>("y", {"2*n", "?"});
  twice.InferShapes();

  OpTester wrong("test.tester::Multiply");
  wrong.AddInputShape<float>("a", {"n", 3}).AddInputShape<float>("b", {4, "m"});
  wrong.AddOutputShape<float>("c", {"n", "m"});
  wrong.InferShapes(OpTester::ExpectResult::kExpectFailure, "3 columns, 4 rows");
}

TEST(Right, ShapesOfConstants) {
  OpTester test("test.tester::Fill");
  test.AddInput<std::int64_t>("shape", {2}, {5, 7}, /*is_constant=*/true);
  test.AddOutputShape<float>("y", {5, 7});
  test.InferShapes();
}

TEST(Right, TheRuntimesOwn) {
  OpTester test("Add", 14);
  test.AddInput<float>("a", {2, 1}, {1, 2}).AddInput<float>("b", {2}, {10, 20});
  test.AddOutput<float>("c", {2, 2}, {11, 21, 12, 22});
  test.Run();
}

}  // namespace
