#include "ops/contrib/inverse/inverse_cpu.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace opgraft::contrib {
namespace {

using Half = std::uint16_t;

std::vector<InstructionSet> InstructionSets() {
  std::vector<InstructionSet> sets = {InstructionSet::kBaseline};
  if (BestInstructionSet() >= InstructionSet::kAvx2) sets.push_back(InstructionSet::kAvx2);
  if (BestInstructionSet() >= InstructionSet::kAvx512) sets.push_back(InstructionSet::kAvx512);
  return sets;
}

template <class T>
double ToDouble(T value) {
  return value;
}
template <>
double ToDouble(Half bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(exponent, 1) - 25);
}

template <class T>
T FromDouble(double value) {
  return static_cast<T>(value);
}
template <>
Half FromDouble<Half>(double value) {
  const Half sign = std::signbit(value) ? 0x8000 : 0;
  value = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (value == 0) return sign;
  const int exponent = std::isinf(value) ? 99 : std::max(std::ilogb(value), -14);
  // std::nearbyint rounds ties to even; a carry into the exponent gives the correct result.
  if (exponent > 15) return sign | 0x7c00;
  const int fraction = static_cast<int>(std::nearbyint(std::ldexp(value, 10 - exponent)));
  return static_cast<Half>(sign | (fraction + ((exponent + 14) << 10)));
}

template <class T>
double Epsilon() {
  return std::is_same_v<T, Half> ? 1.0 / 1024 : std::numeric_limits<T>::epsilon();
}

/// Runs with memory of exactly the required sizes, at addresses that are only aligned for elements,
/// and scratch memory at an odd address.
template <class T>
std::vector<T> Inverses(const std::vector<T>& matrices, std::size_t n, InstructionSet set,
                        SingularMatrix* singular = nullptr) {
  constexpr auto kGuard = static_cast<T>(77);
  const std::size_t count = n == 0 ? 3 : matrices.size() / (n * n);
  std::vector<T> inputs(1, kGuard);
  inputs.insert(inputs.end(), matrices.begin(), matrices.end());
  std::vector<T> outputs(matrices.size() + 6, kGuard);
  std::vector<char> scratch(InvertScratchBytes<T>(n, set) + 1);
  const SingularMatrix found =
      Invert(inputs.data() + 1, outputs.data() + 3, n, 0, count, scratch.data() + 1, set);
  EXPECT_TRUE(std::equal(matrices.begin(), matrices.end(), inputs.begin() + 1,
                         [](T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }));
  for (const std::size_t i : {0, 1, 2}) {
    EXPECT_EQ(outputs[i], kGuard);
    EXPECT_EQ(outputs[outputs.size() - 1 - i], kGuard);
  }
  if (singular != nullptr) {
    *singular = found;
  } else {
    EXPECT_EQ(found.matrix, -1) << "n " << n << ", diagonal " << found.diagonal;
  }
  return {outputs.begin() + 3, outputs.end() - 3};
}

template <class T>
std::vector<T> Random(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(count);
  for (T& value : values) value = FromDouble<T>(normal(random));
  return values;
}

/// Returns the greater of ‖XA - I‖ and ‖AX - I‖, relative to the error of a stable method,
/// n ε ‖X‖ ‖A‖.
template <class T>
double Residual(const T* matrix, const T* inverse, std::size_t n) {
  const auto residual = [n](const T* left, const T* right) {
    double greatest = 0;
    for (std::size_t r = 0; r < n; ++r) {
      double row = 0;
      for (std::size_t c = 0; c < n; ++c) {
        long double sum = r == c ? -1 : 0;
        for (std::size_t k = 0; k < n; ++k) {
          sum += static_cast<long double>(ToDouble(left[r * n + k])) * ToDouble(right[k * n + c]);
        }
        row += static_cast<double>(std::fabs(sum));
      }
      greatest = std::max(greatest, row);
      if (std::isnan(row)) return row;
    }
    return greatest;
  };
  const auto norm = [n](const T* values) {
    double greatest = 0;
    for (std::size_t r = 0; r < n; ++r) {
      double row = 0;
      for (std::size_t c = 0; c < n; ++c) row += std::fabs(ToDouble(values[r * n + c]));
      greatest = std::max(greatest, row);
    }
    return greatest;
  };
  return std::max(residual(inverse, matrix), residual(matrix, inverse)) /
         (static_cast<double>(n) * Epsilon<T>() * norm(matrix) * norm(inverse));
}

template <class T>
class InverseCpuTest : public testing::Test {};
using Types = testing::Types<float, double, Half>;
TYPED_TEST_SUITE(InverseCpuTest, Types);

TYPED_TEST(InverseCpuTest, EverySize) {
  std::vector<std::size_t> sizes(71);
  std::iota(sizes.begin(), sizes.end(), 0);
  sizes.insert(sizes.end(), {96, 127, 129, 200});
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : sizes) {
      const std::size_t count = n <= 17 ? 37 : n <= 70 ? 2 : 1;
      const auto matrices = Random<TypeParam>(count * n * n, static_cast<unsigned>(n));
      const auto inverses = Inverses(matrices, n, set);
      for (std::size_t i = 0; n != 0 && i < count; ++i) {
        ASSERT_LE(Residual(&matrices[i * n * n], &inverses[i * n * n], n), 1)
            << "n " << n << ", matrix " << i << ", set " << static_cast<int>(set);
      }
    }
  }
}

TYPED_TEST(InverseCpuTest, EveryCountOfABatch) {
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {1, 2, 3, 5, 8, 13, 16, 17}) {
      const auto all = Random<TypeParam>(50 * n * n, 3);
      const auto expected = Inverses(all, n, set);
      for (std::size_t count = 0; count <= 50; ++count) {
        const std::vector<TypeParam> matrices(all.begin(), all.begin() + count * n * n);
        const auto inverses = Inverses(matrices, n, set);
        // The inverse of a matrix does not depend on the others in the batch.
        ASSERT_TRUE(std::equal(inverses.begin(), inverses.end(), expected.begin()))
            << "n " << n << ", count " << count << ", set " << static_cast<int>(set);
      }
    }
  }
}

// A batch that does not fit into the cache takes another code path.
TYPED_TEST(InverseCpuTest, LargeBatches) {
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {3, 16}) {
      const auto few = Random<TypeParam>(19 * n * n, 6);
      const auto expected = Inverses(few, n, set);
      const std::size_t repeats = (2 << 20) / (few.size() * sizeof(TypeParam));
      std::vector<TypeParam> matrices;
      for (std::size_t i = 0; i < repeats; ++i) {
        matrices.insert(matrices.end(), few.begin(), few.end());
      }
      const auto inverses = Inverses(matrices, n, set);
      for (std::size_t i = 0; i < inverses.size(); i += few.size()) {
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), inverses.begin() + i))
            << "n " << n << ", from " << i << ", set " << static_cast<int>(set);
      }
    }
  }
}

TYPED_TEST(InverseCpuTest, PartsOfABatchAndInPlace) {
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {2, 4, 7, 16, 20, 40}) {
      auto matrices = Random<TypeParam>(45 * n * n, 4);
      const auto expected = Inverses(matrices, n, set);
      std::vector<char> scratch(InvertScratchBytes<TypeParam>(n, set));
      auto* const data = matrices.data();
      EXPECT_FALSE(Invert(data, data, n, 0, 0, scratch.data(), set));
      EXPECT_FALSE(Invert(data, data, n, 45, 45, scratch.data(), set));
      for (const auto& [first, last] :
           std::vector<std::pair<std::size_t, std::size_t>>{{19, 45}, {0, 18}, {18, 19}}) {
        EXPECT_FALSE(Invert(data, data, n, first, last, scratch.data(), set));
      }
      EXPECT_EQ(matrices, expected) << n;
    }
  }
}

TYPED_TEST(InverseCpuTest, RowsInAnyOrder) {
  std::mt19937 random(5);
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {2, 3, 4, 6, 9, 16, 25, 33, 64, 70, 130}) {
      const std::size_t count = n > 32 ? 2 : 21;
      std::vector<TypeParam> matrices(count * n * n), expected(count * n * n);
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<std::size_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        for (std::size_t r = 0; r < n; ++r) {
          const double value = std::ldexp(r % 2 == 0 ? 1 : -1, static_cast<int>(r % 5));
          matrices[i * n * n + r * n + order[r]] = FromDouble<TypeParam>(value);
          expected[i * n * n + order[r] * n + r] = FromDouble<TypeParam>(1 / value);
        }
      }
      const auto inverses = Inverses(matrices, n, set);
      for (std::size_t i = 0; i < inverses.size(); ++i) {
        ASSERT_EQ(ToDouble(inverses[i]), ToDouble(expected[i])) << n << " at " << i;
      }
    }
  }
}

TYPED_TEST(InverseCpuTest, BadlyConditioned) {
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {2, 3, 5, 8, 16, 24, 48, 100}) {
      // Orthogonal (Householder) matrices on both sides of a diagonal from 1 to 1 / condition.
      const double condition = 0.02 / Epsilon<TypeParam>();
      const auto u = Random<double>(2 * n, static_cast<unsigned>(n));
      const double* const v = u.data() + n;
      const auto square = [n](const double* x) { return std::inner_product(x, x + n, x, 0.0); };
      std::vector<TypeParam> matrix(n * n);
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t c = 0; c < n; ++c) {
          double sum = 0;
          for (std::size_t k = 0; k < n; ++k) {
            const double left = (r == k) - 2 * u[r] * u[k] / square(u.data());
            const double right = (k == c) - 2 * v[k] * v[c] / square(v);
            sum += left * right * std::pow(condition, -static_cast<double>(k) / (n - 1.0));
          }
          matrix[r * n + c] = FromDouble<TypeParam>(sum);
        }
      }
      const auto inverse = Inverses(matrix, n, set);
      EXPECT_LE(Residual(matrix.data(), inverse.data(), n), 1) << n;
    }
  }
}

TYPED_TEST(InverseCpuTest, SaysWhichMatrixIsSingularAndWhere) {
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {1, 2, 3, 4, 8, 15, 16, 17, 32, 33, 70}) {
      const std::size_t count = n > 17 ? 3 : 39;
      for (std::size_t bad = 0; bad < count; bad += n > 17 ? 1 : 6) {
        for (const std::size_t zero : {std::size_t{0}, n / 2, n - 1}) {
          std::vector<TypeParam> matrices(count * n * n);
          for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t k = 0; k < n; ++k) {
              const bool is_zero = (i == bad && k >= zero) || (i > bad && k == 0);
              matrices[(i * n + k) * n + k] = FromDouble<TypeParam>(is_zero ? 0 : 2);
            }
          }
          SingularMatrix singular;
          Inverses(matrices, n, set, &singular);
          EXPECT_EQ(singular.matrix, static_cast<std::int64_t>(bad)) << n;
          EXPECT_EQ(singular.diagonal, static_cast<std::int64_t>(zero)) << n;
        }
      }
    }
  }
}

TYPED_TEST(InverseCpuTest, FindsTheZeroThatLapackFinds) {
  struct Case {
    std::vector<double> matrix;
    std::int64_t diagonal;
  };
  // With the diagonals that torch.linalg.inv reports (minus 1). With fused products, thirds and
  // sixths, which are rounded, would leave a remainder instead of a zero.
  const std::vector<Case> cases = {
      {{0, 0, 1, 1}, 1},
      {{0, 1, 0, 1}, 0},
      {{1, 2, 3, 6}, 1},
      {{3, 1, 6, 2}, 1},
      {{7, 5, 49, 35}, 1},
      {{1, 1, 1, 1, 1, 1, 1, 1, 1}, 1},
      {{3, 1, 3, 6, 2, 6, 9, 4, 9}, 2},
  };
  for (const InstructionSet set : InstructionSets()) {
    for (const Case& test : cases) {
      const auto n = static_cast<std::size_t>(std::sqrt(test.matrix.size()));
      for (const std::size_t count : {1, 16}) {  // alone, and one in each lane
        std::vector<TypeParam> matrices;
        for (std::size_t i = 0; i < count; ++i) {
          for (const double x : test.matrix) matrices.push_back(FromDouble<TypeParam>(x));
        }
        SingularMatrix singular;
        Inverses(matrices, n, set, &singular);
        EXPECT_EQ(singular.matrix, 0);
        EXPECT_EQ(singular.diagonal, test.diagonal) << testing::PrintToString(test.matrix);
      }
    }
  }
}

TYPED_TEST(InverseCpuTest, NanAndInfinityStayInTheirMatrix) {
  for (const InstructionSet set : InstructionSets()) {
    for (const std::size_t n : {1, 2, 3, 8, 16, 17, 33, 70}) {
      const std::size_t count = n > 17 ? 3 : 35;
      const std::size_t odd = count / 2;
      const auto good = Random<TypeParam>(count * n * n, 6);
      const auto expected = Inverses(good, n, set);
      for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        for (const std::size_t at : {std::size_t{0}, n * n / 2, n * n - 1}) {
          auto matrices = good;
          matrices[odd * n * n + at] = FromDouble<TypeParam>(value);
          const auto inverses = Inverses(matrices, n, set);
          bool has_nan = false;
          for (std::size_t i = 0; i < inverses.size(); ++i) {
            if (i / (n * n) != odd) {
              ASSERT_EQ(inverses[i], expected[i]) << n << " at " << i;
            } else {
              has_nan |= std::isnan(ToDouble(inverses[i]));
            }
          }
          EXPECT_TRUE(has_nan || !std::isnan(value)) << n;
        }
      }
    }
    const auto nan = FromDouble<TypeParam>(std::nan(""));
    const auto one = FromDouble<TypeParam>(1);
    for (const TypeParam x : Inverses<TypeParam>({0, one, nan, one}, 2, set)) {
      EXPECT_TRUE(std::isnan(ToDouble(x)));  // NaN counts as larger than the zero above it
    }
  }
}

TEST(InverseHalfTest, EveryValueIsReadAndRounded) {
  std::vector<Half> values, expected;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const double value = ToDouble(static_cast<Half>(bits));
    if (value == 0) continue;
    values.push_back(static_cast<Half>(bits));
    expected.push_back(FromDouble<Half>(static_cast<float>(1 / value)));
  }
  for (const InstructionSet set : InstructionSets()) {
    const auto inverses = Inverses(values, 1, set);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(ToDouble(expected[i]))) {
        ASSERT_TRUE(std::isnan(ToDouble(inverses[i]))) << values[i];
      } else {
        ASSERT_EQ(inverses[i], expected[i]) << values[i];
      }
    }
  }
}

TEST(SingularMatrixTest, IsWordedAsTorchWordsIt) {
  EXPECT_EQ(SingularMatrixText({0, 1}, false),
            "linalg.inv: The diagonal element 2 is zero, the inversion could not be completed "
            "because the input matrix is singular.");
  EXPECT_EQ(SingularMatrixText({3, 0}, true),
            "linalg.inv: (Batch element 3): The diagonal element 1 is zero, the inversion could "
            "not be completed because the input matrix is singular.");
}

}  // namespace
}  // namespace opgraft::contrib
