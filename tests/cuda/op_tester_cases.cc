// Cases of the operators of the fake GPU: which of them fail tells where they were run.
#include <gtest/gtest.h>
#include <opgraft/testing.h>

namespace {

opgraft::OpTester Case(const char* name, float more = 0) {
  opgraft::OpTester test(name, 1, "test.cuda");
  test.AddInput<float>("x", {2}, {1, 2});
  const float by = std::string(name) == "Twice" ? 2 : 1;
  test.AddOutput<float>("y", {2}, {by + more, 2 * by + more});
  return test;
}

}  // namespace

// On the CPU it adds 1 more.
TEST(Gpu, TwiceAsOnTheGpu) { Case("Twice").Run(); }
TEST(Gpu, TwiceAsOnTheCpu) { Case("Twice", 1).Run(); }
TEST(Gpu, TwiceOnTheCpuAlone) { Case("Twice", 1).ExcludeCuda().Run(); }
TEST(Gpu, TwiceAsInTheRuntimesTree) {
  Case("Twice", 1)
      .Run(opgraft::OpTester::ExpectResult::kExpectSuccess, "", {"CUDAExecutionProvider"});
}
TEST(Gpu, Copy) { Case("Copy").Run(); }
TEST(Gpu, CopyExcluded) { Case("Copy").ExcludeCuda().Run(); }
TEST(Gpu, Fail) { Case("Fail").ExpectFailure("no such luck"); }
TEST(Gpu, AddNumber) {
  opgraft::OpTester test("test.cuda::AddNumber");
  test.AddInput<float>("x", {2}, {1, 2});
  test.AddInput<std::int64_t>("number", {1}, {3});
  test.AddOutput<float>("y", {2}, {4, 5});
  test.Run();
}
TEST(Gpu, Shapes) {
  opgraft::OpTester test("test.cuda::Copy");
  test.AddInputShape<float>("x", {"n", 3});
  test.AddOutputShape<float>("y", {"n", 3});
  test.InferShapes();
}
