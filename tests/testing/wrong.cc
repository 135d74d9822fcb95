// Cases that are wrong, or of operators that are: OpTester must report each, with its numbers.
#include <opgraft/testing.h>

using opgraft::OpTester;

namespace {

OpTester Copying(const char* name) {
  OpTester test(name);
  test.AddInput<float>("x", {2}, {1, 2}).AddOutput<float>("y", {2}, {1, 2});
  return test;
}

TEST(Wrong, Value) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {2, 2}, {1, 2, 3, 4}).AddOutput<float>("y", {2, 2}, {2, 4, 6.5f, 8});
  test.Run();
}

TEST(Wrong, TextValue) {
  OpTester test("test.tester::Repeat");
  test.AddInput<std::string>("x", {1}, {"a"}).AddOutput<std::string>("y", {1}, {"aaa"});
  test.Run();
}

TEST(Wrong, Tolerance) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {1}, {1}).AddOutput<float>("y", {1}, {2.25f});
  test.SetTolerance(0.125);
  test.Run();
}

TEST(Wrong, Shape) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {2, 2}, {1, 2, 3, 4}).AddOutput<float>("y", {4}, {2, 4, 6, 8});
  test.Run();
}

TEST(Wrong, Type) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {1}, {1}).AddOutput<double>("y", {1}, {2});
  test.Run();
}

TEST(Wrong, InferredShape) {
  OpTester test("test.tester::Liar");
  test.AddInput<float>("x", {3}, {5, 6, 7}).AddOutput<float>("y", {1}, {5});
  test.Run();
}

TEST(Wrong, InferredSymbol) {
  OpTester test("test.tester::SymbolLiar");
  test.AddInput<float>("x", {2}, {5, 6}).AddOutput<float>("y", {4}, {1, 1, 1, 1});
  test.Run();
}

TEST(Wrong, Aligned) { Copying("test.tester::Aligned").Run(); }
TEST(Wrong, OnlyFed) { Copying("test.tester::OnlyFed").Run(); }
TEST(Wrong, Counter) { Copying("test.tester::Counter").Run(); }
TEST(Wrong, Vandal) { Copying("test.tester::Vandal").Run(); }

TEST(Wrong, OutOfPlace) {
  OpTester test("test.tester::OutOfPlace");
  test.AddInput<float>("x", {3}, {1, 2, 3}).AddOutput<float>("y", {3}, {3, 2, 1});
  test.Run();
}

TEST(Wrong, NoFailure) { Copying("test.tester::OnlyFed").ExpectFailure("it must be fed"); }

TEST(Wrong, OtherText) { Copying("test.tester::Refuse").ExpectFailure("the matrix is empty"); }

TEST(Wrong, ShapeRule) {
  OpTester test("test.tester::Multiply");
  test.AddInputShape<float>("a", {"n", 3}).AddInputShape<float>("b", {3, "m"});
  test.AddOutputShape<float>("c", {"m", "n"});
  test.InferShapes();
}

TEST(Wrong, ShapeRuleThatDoesNotFail) {
  OpTester test("test.tester::Multiply");
  test.AddInputShape<float>("a", {"n", 3}).AddInputShape<float>("b", {3, "m"});
  test.AddOutputShape<float>("c", {"n", "m"});
  test.InferShapes(OpTester::ExpectResult::kExpectFailure, "columns");
}

TEST(Wrong, Case) {
  OpTester test("test.tester::Scale");
  test.AddInput<float>("x", {2, 2}, {1, 2, 3}).AddOutputShape<float>("y", {2, "n"});
  test.SetOutputTolerance("z", 1);
  test.Run();
}

TEST(Wrong, NoSuchOperator) { Copying("test.tester::Nothing").Run(); }

TEST(Crash, Aligned) { Copying("test.tester::Crash").Run(); }

}  // namespace
