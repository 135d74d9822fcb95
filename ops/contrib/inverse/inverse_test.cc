// Tests com.microsoft Inverse in ONNX Runtime.
#include <gtest/gtest.h>
#include <opgraft/testing.h>

namespace opgraft::contrib {
namespace {

OpTester Inverse() { return OpTester("Inverse", 1, "com.microsoft"); }

TEST(InverseContribOpTest, TwoByTwoFloat) {
  OpTester test = Inverse();
  test.AddInput<float>("X", {2, 2}, {4, 7, 2, 6});
  test.AddOutput<float>("Y", {2, 2}, {0.6F, -0.7F, -0.2F, 0.4F});
  test.Run();
}

TEST(InverseContribOpTest, TwoByTwoDouble) {
  OpTester test = Inverse();
  test.AddInput<double>("X", {2, 2}, {4, 7, 2, 6});
  test.AddOutput<double>("Y", {2, 2}, {0.6, -0.7, -0.2, 0.4});
  test.Run();
}

TEST(InverseContribOpTest, TwoByTwoFloat16) {
  OpTester test = Inverse();
  test.AddInput<Float16>("X", {2, 2}, {4, 7, 2, 6});
  test.AddOutput<Float16>("Y", {2, 2}, {0.6F, -0.7F, -0.2F, 0.4F});
  test.Run();
}

TEST(InverseContribOpTest, BatchesThatNeedOtherRowsFirst) {
  OpTester test = Inverse();
  test.AddInput<float>("X", {2, 1, 2, 2}, {0, 2, 4, 0, 1, 2, 3, 4});
  test.AddOutput<float>("Y", {2, 1, 2, 2}, {0, 0.25F, 0.5F, 0, -2, 1, 1.5F, -0.5F});
  test.Run();
}

TEST(InverseContribOpTest, OneByOneAndEmpty) {
  OpTester one = Inverse();
  one.AddInput<float>("X", {3, 1, 1}, {2, -4, 0.5F});
  one.AddOutput<float>("Y", {3, 1, 1}, {0.5F, -0.25F, 2});
  one.Run();
  OpTester no_matrices = Inverse();
  no_matrices.AddInput<float>("X", {0, 2, 2}, {});
  no_matrices.AddOutput<float>("Y", {0, 2, 2}, {});
  no_matrices.Run();
  OpTester no_rows = Inverse();
  no_rows.AddInput<float>("X", {3, 0, 0}, {});
  no_rows.AddOutput<float>("Y", {3, 0, 0}, {});
  no_rows.Run();
}

// On the GPU the elements of its inverse are NaN: an error would require waiting for the GPU.
TEST(InverseContribOpTest, ASingularMatrixIsReportedAsTorchReportsIt) {
  OpTester single = Inverse().ExcludeCuda();
  single.AddInput<float>("X", {2, 2}, {1, 2, 2, 4});
  single.AddOutput<float>("Y", {2, 2}, {0, 0, 0, 0});
  single.ExpectFailure(
      "linalg.inv: The diagonal element 2 is zero, the inversion could not be completed because "
      "the input matrix is singular.");
  OpTester batch = Inverse().ExcludeCuda();
  batch.AddInput<float>("X", {3, 2, 2}, {1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0});
  batch.AddOutput<float>("Y", {3, 2, 2}, std::vector<float>(12));
  batch.ExpectFailure("linalg.inv: (Batch element 1): The diagonal element 1 is zero");
}

TEST(InverseContribOpTest, WhatIsNotSquareIsRefused) {
  OpTester test = Inverse();
  test.AddInput<float>("X", {2, 3}, {1, 2, 3, 4, 5, 6});
  test.AddOutput<float>("Y", {2, 3}, std::vector<float>(6));
  test.ExpectFailure("2 rows and 3 columns, expected square ones");
  OpTester vector = Inverse();
  vector.AddInput<float>("X", {2}, {1, 2});
  vector.AddOutput<float>("Y", {2}, {1, 2});
  vector.ExpectFailure("X has the rank 1, expected matrices");
}

TEST(InverseContribOpTest, ShapesAreThoseOfTheInput) {
  OpTester symbols = Inverse();
  symbols.AddInputShape<float>("X", {"batch", "n", "n"});
  symbols.AddOutputShape<float>("Y", {"batch", "n", "n"});
  symbols.InferShapes();
  OpTester one_known = Inverse();
  one_known.AddInputShape<float>("X", {"?", 3, "n"});
  one_known.AddOutputShape<float>("Y", {"?", 3, 3});
  one_known.InferShapes();
  OpTester unknown = Inverse();
  unknown.AddInputOfUnknownRank<double>("X");
  unknown.AddOutputOfUnknownRank<double>("Y");
  unknown.InferShapes();
  OpTester wrong = Inverse();
  wrong.AddInputShape<float>("X", {"batch", 3, 4});
  wrong.AddOutputShape<float>("Y", {"batch", 3, 4});
  wrong.InferShapes(OpTester::ExpectResult::kExpectFailure, "expected square ones");
}

}  // namespace
}  // namespace opgraft::contrib
