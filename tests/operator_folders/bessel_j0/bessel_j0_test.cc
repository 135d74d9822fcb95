// BesselJ0 in ONNX Runtime, by OpTester.
#include <opgraft/testing.h>

namespace {

TEST(BesselJ0, OfFloats) {
  opgraft::OpTester test("BesselJ0", 1, "ai.opgraft");
  test.AddInput<float>("X", {2, 2}, {0, 1, 2, -2});
  test.AddOutput<float>("Y", {2, 2}, {1, 0.7651976866F, 0.2238907791F, 0.2238907791F});
  test.Run();
}

TEST(BesselJ0, IsScaled) {
  opgraft::OpTester test("BesselJ0", 1, "ai.opgraft");
  test.AddAttribute("scale", 2.0f);
  test.AddInput<double>("X", {1}, {1});
  test.AddOutput<double>("Y", {1}, {1.5303953731});
  test.Run();
}

}  // namespace
