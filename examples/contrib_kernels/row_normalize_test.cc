// The operator's tests, as they would be written in onnxruntime/test/contrib_ops/.
#include <opgraft/contrib_testing.h>

namespace onnxruntime {
namespace test {

constexpr const char* kExampleDomain = "ai.opgraft.examples";

TEST(RowNormalizeContribOpTest, two_rows_float) {
  OpTester test("RowNormalize", 1, kExampleDomain);
  test.AddInput<float>("X", {2, 2}, {3, 4, 0, -2});
  test.AddOutput<float>("Y", {2, 2}, {0.6f, 0.8f, 0, -1});
  test.Run();
}

TEST(RowNormalizeContribOpTest, scale_and_lengths_float16) {
  OpTester test("RowNormalize", 1, kExampleDomain);
  test.AddInput<MLFloat16>("X", {1, 2}, {MLFloat16(3.0f), MLFloat16(4.0f)});
  test.AddInput<MLFloat16>("scale", {2}, {MLFloat16(10.0f), MLFloat16(5.0f)});
  test.AddOutput<MLFloat16>("Y", {1, 2}, {MLFloat16(6.0f), MLFloat16(4.0f)});
  test.AddOutput<MLFloat16>("length", {1}, {MLFloat16(5.0f)});
  test.Run();
}

TEST(RowNormalizeContribOpTest, negative_epsilon) {
  OpTester test("RowNormalize", 1, kExampleDomain);
  test.AddAttribute("epsilon", -1.0f);
  test.AddInput<double>("X", {1}, {3});
  test.AddOutput<double>("Y", {1}, {1});
  test.Run(OpTester::ExpectResult::kExpectFailure, "epsilon is -1, expected 0 or more.");
}

}  // namespace test
}  // namespace onnxruntime
