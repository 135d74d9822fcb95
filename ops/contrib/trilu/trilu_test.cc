// Tests com.microsoft Trilu in ONNX Runtime.
#include <gtest/gtest.h>
#include <opgraft/testing.h>

#include <cstdint>

namespace opgraft::contrib {
namespace {

OpTester Trilu() { return OpTester("Trilu", 1, "com.microsoft"); }

TEST(TriluContribOpTest, UpperIsTheDefault) {
  OpTester test = Trilu();
  test.AddInput<float>("X", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  test.AddOutput<float>("Y", {3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9});
  test.Run();
}

TEST(TriluContribOpTest, LowerOfABatchWithADiagonal) {
  OpTester test = Trilu();
  test.AddAttribute("upper", 0);
  test.AddInput<std::int64_t>("X", {2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  test.AddInput<std::int64_t>("k", {}, {1});
  test.AddOutput<std::int64_t>("Y", {2, 2, 3}, {1, 2, 0, 4, 5, 6, 7, 8, 0, 10, 11, 12});
  test.Run();
}

TEST(TriluContribOpTest, DiagonalsFarAway) {
  for (const std::int64_t far : {std::int64_t{100}, INT64_MAX, std::int64_t{-100}, INT64_MIN}) {
    OpTester test = Trilu();
    test.AddInput<double>("X", {2, 2}, {1, 2, 3, 4});
    test.AddInput<std::int64_t>("k", {1}, {far});
    const bool is_kept = far < 0;
    test.AddOutput<double>(
        "Y", {2, 2}, std::vector<double>{is_kept * 1., is_kept * 2., is_kept * 3., is_kept * 4.});
    test.Run();
  }
}

template <class T>
class TriluTypesContribOpTest : public testing::Test {};
using Types =
    testing::Types<float, double, Float16, BFloat16, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(TriluTypesContribOpTest, Types);

TYPED_TEST(TriluTypesContribOpTest, EveryType) {
  OpTester test = Trilu();
  test.AddInput<TypeParam>("X", {2, 2}, {TypeParam(1), TypeParam(2), TypeParam(3), TypeParam(4)});
  test.AddOutput<TypeParam>("Y", {2, 2}, {TypeParam(1), TypeParam(2), TypeParam(0), TypeParam(4)});
  test.Run();
}

TEST(TriluContribOpTest, Empty) {
  OpTester test = Trilu();
  test.AddInput<float>("X", {2, 0, 3}, {});
  test.AddOutput<float>("Y", {2, 0, 3}, {});
  test.Run();
}

TEST(TriluContribOpTest, NoneOfManyLargeMatrices) {
  // The byte size of one such matrix overflows to 0 in 64 bits.
  const std::int64_t size = std::int64_t{1} << 31;
  OpTester test = Trilu();
  test.AddInput<float>("X", {0, size, size}, {});
  test.AddOutput<float>("Y", {0, size, size}, {});
  test.Run();
}

TEST(TriluContribOpTest, WhatIsNoMatrixOrNoDiagonalIsRefused) {
  OpTester vector = Trilu();
  vector.AddInput<float>("X", {2}, {1, 2});
  vector.AddOutput<float>("Y", {2}, {1, 2});
  vector.ExpectFailure("X has the rank 1, expected matrices");
  OpTester diagonals = Trilu();
  diagonals.AddInput<float>("X", {1, 1}, {1});
  diagonals.AddInput<std::int64_t>("k", {2}, {1, 2});
  diagonals.AddOutput<float>("Y", {1, 1}, {1});
  diagonals.ExpectFailure("input 'k' has 2 elements, expected one");
}

TEST(TriluContribOpTest, ShapesAreThoseOfTheInput) {
  OpTester symbols = Trilu();
  symbols.AddInputShape<float>("X", {"batch", "n", 3});
  symbols.AddInputShape<std::int64_t>("k", {});
  symbols.AddOutputShape<float>("Y", {"batch", "n", 3});
  symbols.InferShapes();
  OpTester unknown = Trilu();
  unknown.AddInputOfUnknownRank<float>("X");
  unknown.AddOutputOfUnknownRank<float>("Y");
  unknown.InferShapes();
}

}  // namespace
}  // namespace opgraft::contrib
