// Tests com.microsoft Gelu in ONNX Runtime.
#include <gtest/gtest.h>
#include <opgraft/testing.h>

#include <cmath>
#include <limits>
#include <vector>

namespace opgraft::contrib {
namespace {

double Exact(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

template <class T>
class GeluContribOpTest : public testing::Test {};
using Types = testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(GeluContribOpTest, Types);

TYPED_TEST(GeluContribOpTest, IsExact) {
  std::vector<TypeParam> x;
  std::vector<TypeParam> y;
  for (int i = -40; i < 41; ++i) {
    x.push_back(static_cast<TypeParam>(0.25F * static_cast<float>(i)));
    y.push_back(static_cast<TypeParam>(Exact(static_cast<double>(x.back()))));
  }
  OpTester test("Gelu", 1, "com.microsoft");
  test.AddInput<TypeParam>("X", {3, 27}, x);
  test.AddOutput<TypeParam>("Y", {3, 27}, y);
  test.Run();
}

TYPED_TEST(GeluContribOpTest, TakesScalarsAndNothing) {
  OpTester scalar("Gelu", 1, "com.microsoft");
  scalar.AddInput<TypeParam>("X", {}, {TypeParam(1)});
  scalar.AddOutput<TypeParam>("Y", {}, {static_cast<TypeParam>(Exact(1))});
  scalar.Run();
  OpTester empty("Gelu", 1, "com.microsoft");
  empty.AddInput<TypeParam>("X", {2, 0}, {});
  empty.AddOutput<TypeParam>("Y", {2, 0}, {});
  empty.Run();
}

TEST(GeluContribOpSpecialTest, SpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  OpTester test("Gelu", 1, "com.microsoft");
  test.AddInput<float>("X", {4}, {kInfinity, -kInfinity, kNan, -100});
  test.AddOutput<float>("Y", {4}, {kInfinity, 0, kNan, 0});
  test.Run();
}

TEST(GeluContribOpSpecialTest, ShapesAreThoseOfTheInput) {
  OpTester symbols("Gelu", 1, "com.microsoft");
  symbols.AddInputShape<float>("X", {"n", 3, "?"});
  symbols.AddOutputShape<float>("Y", {"n", 3, "?"});
  symbols.InferShapes();
  OpTester unknown("Gelu", 1, "com.microsoft");
  unknown.AddInputOfUnknownRank<float>("X");
  unknown.AddOutputOfUnknownRank<float>("Y");
  unknown.InferShapes();
}

}  // namespace
}  // namespace opgraft::contrib
