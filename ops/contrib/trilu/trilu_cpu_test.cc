// Tests Trilu against the definition, element by element.
#include "ops/contrib/trilu/trilu_cpu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace opgraft::contrib {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kAround = 32;

/// Returns whether the definition keeps an element. k is clamped first, since the sum may overflow.
bool Keeps(std::int64_t row, std::int64_t column, std::int64_t k, bool upper) {
  if (k > 1'000'000 || k < -1'000'000) return (k < 0) == upper;
  return upper ? column >= row + k : column <= row + k;
}

/// Computes both triangles, to other memory and in place, at addresses that are not aligned.
template <typename Element>
void Check(const TriluShape& shape, std::int64_t k) {
  const auto count = static_cast<std::size_t>(shape.batch * shape.rows * shape.columns);
  const std::size_t bytes = count * sizeof(Element);
  std::vector<unsigned char> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<unsigned char>(1 + i % 255);
  for (const bool upper : {false, true}) {
    SCOPED_TRACE(testing::Message()
                 << shape.batch << "x" << shape.rows << "x" << shape.columns << " of "
                 << sizeof(Element) << ", k " << k << (upper ? " upper" : " lower"));
    std::vector<unsigned char> right(bytes + 2 * kAround + 1, 0xa5);
    unsigned char* const right_values = right.data() + kAround + 1;
    for (std::size_t i = 0; i < count; ++i) {
      const auto element = static_cast<std::int64_t>(i);
      const bool keeps =
          Keeps(element / shape.columns % shape.rows, element % shape.columns, k, upper);
      for (std::size_t byte = i * sizeof(Element); byte < (i + 1) * sizeof(Element); ++byte) {
        right_values[byte] = keeps ? values[byte] : 0;
      }
    }
    std::vector<unsigned char> apart(bytes + 2 * kAround + 1, 0xa5);
    Trilu<sizeof(Element)>(values.data(), apart.data() + kAround + 1, shape, k, upper);
    ASSERT_EQ(apart, right);
    std::vector<unsigned char> in_place(bytes + 2 * kAround + 1, 0xa5);
    unsigned char* const start = in_place.data() + kAround + 1;
    if (bytes != 0) std::memcpy(start, values.data(), bytes);
    Trilu<sizeof(Element)>(start, start, shape, k, upper);
    ASSERT_EQ(in_place, right);
  }
}

template <typename Element>
class TriluTest : public testing::Test {};

using Elements = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(TriluTest, Elements);

TYPED_TEST(TriluTest, KeepsWhatTheDefinitionKeeps) {
  for (const std::int64_t batch : {1, 2, 7}) {
    for (const std::int64_t rows : {1, 2, 3, 5, 8}) {
      for (const std::int64_t columns : {1, 2, 3, 5, 9}) {
        for (std::int64_t k = -11; k <= 11; ++k) {
          Check<TypeParam>({batch, rows, columns}, k);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

// The first are just small enough for the mask, the next are not; the last need many masks and a
// rest.
TYPED_TEST(TriluTest, TakesLargeAndManyMatrices) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(TypeParam));
  for (const TriluShape& shape : std::vector<TriluShape>{{3, 64, 64 / kSize},
                                                         {3, 64, 64 / kSize + 1},
                                                         {2000, 3, 5},
                                                         {1, 200, 3},
                                                         {2, 3, 3000},
                                                         {2, 90, 70}}) {
    for (const std::int64_t k : {0, 1, -1, 2, -60, 60}) {
      Check<TypeParam>(shape, k);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(TriluTest, TakesAnyDiagonal) {
  for (const std::int64_t k : {kLeast, kLeast + 1, kMost, kMost - 1, std::int64_t{1} << 40}) {
    Check<TypeParam>({1, 4, 6}, k);
    Check<TypeParam>({3, 6, 4}, k);
    Check<TypeParam>({2, 100, 100}, k);
  }
}

TYPED_TEST(TriluTest, TakesEmptyDimensions) {
  for (const TriluShape& shape :
       std::vector<TriluShape>{{0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}}) {
    for (const bool upper : {false, true}) {
      Trilu<sizeof(TypeParam)>(nullptr, nullptr, shape, kLeast, upper);
      Trilu<sizeof(TypeParam)>(nullptr, nullptr, shape, 1, upper);
    }
  }
}

}  // namespace
}  // namespace opgraft::contrib
