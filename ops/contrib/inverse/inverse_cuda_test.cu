// Tests inverses on the GPU by their residuals, and against known inverses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/contrib/inverse/inverse_cuda.h"
#include "ops/contrib/inverse/inverse_parts.cuh"
#include "tests/cuda/kernel_testing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

template <class T>
double Epsilon() {
  return sizeof(T) == 2 ? 1.0 / 1024 : sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;
}

template <class T>
double Value(const T& x) {
  if constexpr (std::is_same_v<T, Float16>) {
    return float{x};
  } else {
    return x;
  }
}

template <class T>
std::vector<T> Inverses(const std::vector<T>& matrices, std::size_t n, std::size_t offset = 0) {
  const std::size_t count = n == 0 ? 3 : matrices.size() / (n * n);
  DeviceValues<T> from(matrices, offset);
  DeviceValues<T> to(std::vector<T>(matrices.size(), T(77.0F)), offset);
  Scratch scratch;
  Require(InverseCuda(from.data(), to.data(), n, count, scratch.get(), nullptr), "InverseCuda");
  const std::vector<T> inverses = to.Read();
  const std::vector<T> still = from.Read();
  if (!matrices.empty() &&
      std::memcmp(still.data(), matrices.data(), matrices.size() * sizeof(T)) != 0) {
    Fail("Inverse of %zu %s, n %zu, has changed its input", count, kNameOf<T>, n);
  }
  return inverses;
}

/// Returns the greater of ‖XA - I‖ and ‖AX - I‖, relative to the error of a stable method,
/// n ε ‖X‖ ‖A‖. For large matrices, checks only some rows.
template <class T>
double Residual(const T* matrix, const T* inverse, std::size_t n) {
  using Real = std::conditional_t<std::is_same_v<T, double>, long double, double>;
  std::vector<Real> x(n * n), y(n * n);
  std::transform(matrix, matrix + n * n, x.begin(), [](const T& value) { return Value(value); });
  std::transform(inverse, inverse + n * n, y.begin(), [](const T& value) { return Value(value); });
  const auto residual = [n](const std::vector<Real>& left, const std::vector<Real>& right) {
    double greatest = 0;
    std::vector<Real> sums(n);
    for (std::size_t r = 0; r < n; r += n > 256 ? n / 13 : 1) {
      std::fill(sums.begin(), sums.end(), Real{0});
      sums[r] = -1;
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t c = 0; c < n; ++c) sums[c] += left[r * n + k] * right[k * n + c];
      }
      double row = 0;
      for (const Real sum : sums) row += static_cast<double>(std::fabs(sum));
      if (!(row <= greatest)) greatest = row;
      if (std::isnan(row)) return row;
    }
    return greatest;
  };
  const auto norm = [n](const std::vector<Real>& values) {
    double greatest = 0;
    for (std::size_t r = 0; r < n; ++r) {
      double row = 0;
      for (std::size_t c = 0; c < n; ++c) row += static_cast<double>(std::fabs(values[r * n + c]));
      greatest = std::max(greatest, row);
    }
    return greatest;
  };
  return std::max(residual(x, y), residual(y, x)) /
         (static_cast<double>(n) * Epsilon<T>() * norm(x) * norm(y));
}

template <class T>
bool AreEqual(const T* a, const T* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

/// Returns all sizes, or, if IsSmall, those that take different code paths.
std::vector<std::size_t> Sizes() {
  std::vector<std::size_t> sizes;
  if (IsSmall())
    return {0,  1,  2,  3,  4,  5,  7,  8,  9,  12, 13,  16,  17,
            24, 25, 32, 33, 48, 50, 64, 65, 96, 97, 128, 129, 192};
  sizes.resize(133);
  std::iota(sizes.begin(), sizes.end(), 0);
  sizes.insert(sizes.end(), {161, 191, 192});
  return sizes;
}

template <class T>
void CheckEverySize() {
  double worst = 0;
  for (const std::size_t n : Sizes()) {
    // More than one block, and less than a warp in the last block.
    const std::size_t count = n <= 4 ? 139 : n <= 16 ? 39 : n <= 32 ? 6 : 3;
    const auto matrices = Random<T>(count * n * n, static_cast<unsigned>(n));
    const auto inverses = Inverses(matrices, n);
    for (std::size_t i = 0; n != 0 && i < count; ++i) {
      const double residual = Residual(&matrices[i * n * n], &inverses[i * n * n], n);
      if (!(residual <= 1)) Fail("Inverse of %s, n %zu, %zu: %g", kNameOf<T>, n, i, residual);
      worst = std::max(worst, residual);
    }
  }
  std::printf("        %s: residuals up to %.3f n eps |X| |Y|\n", kNameOf<T>, worst);
}

CUDA_TEST(InverseOfEverySize) {
  CheckEverySize<float>();
  CheckEverySize<double>();
  CheckEverySize<Float16>();
}

template <class T>
void CheckLarge(std::size_t n, std::size_t count, double* worst,
                CudaError (*invert)(const T*, T*, std::size_t, std::size_t, const DeviceScratch&,
                                    CudaStream) = InverseCuda<T>) {
  const auto matrices = Random<T>(count * n * n, static_cast<unsigned>(n));
  DeviceValues<T> from(matrices);
  DeviceValues<T> to(std::vector<T>(matrices.size(), T(77.0F)));
  Scratch scratch;
  Require(invert(from.data(), to.data(), n, count, scratch.get(), nullptr), "InverseCuda");
  const auto inverses = to.Read();
  from.Read();
  for (std::size_t i = 0; i < count; i += count > 10 ? count / 10 - 1 : 1) {
    const double residual = Residual(&matrices[i * n * n], &inverses[i * n * n], n);
    if (!(residual <= 1)) Fail("Inverse of %s, n %zu, %zu: %g", kNameOf<T>, n, i, residual);
    *worst = std::max(*worst, residual);
  }
}

CUDA_TEST(InverseOfLargeMatrices) {
  const std::vector<std::size_t> sizes =
      IsSmall() ? std::vector<std::size_t>{193, 256, 300}
                : std::vector<std::size_t>{193, 256, 257, 300, 512, 700, 1024, 1100, 2048};
  double worst = 0;
  for (const std::size_t n : sizes) {
    CheckLarge<float>(n, n <= 300 ? 3 : 1, &worst);
    if (!IsSmall() || n == 193) CheckLarge<double>(n, n <= 300 ? 2 : 1, &worst);
  }
  CheckLarge<Float16>(200, 2, &worst);
  if (!IsSmall()) {
    // So many matrices that their scratch memory is reused.
    CheckLarge<float>(200, 1300, &worst);
  }
  std::printf("        residuals up to %.3f n eps |X| |Y|\n", worst);
}

// Matrices without cuSOLVER, with panels that do not fit into registers.
CUDA_TEST(InverseOfTheLargestMatrices) {
  if (IsSmall()) return;
  double worst = 0;
  CheckLarge<float>(2500, 1, &worst, InvertInMemory<float>);
  CheckLarge<float>(4200, 1, &worst, InvertInMemory<float>);
  CheckLarge<double>(2100, 1, &worst, InvertInMemory<double>);
  std::printf("        residuals up to %.3f n eps |X| |Y|\n", worst);
}

template <class T>
CudaError ByLibrary(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                    const DeviceScratch& scratch, CudaStream stream) {
  CudaError error = nullptr;
  using Element = Stored<T>;
  if (!InvertByLibrary(reinterpret_cast<const Element*>(matrices),
                       reinterpret_cast<Element*>(inverses), n, count, scratch, stream, &error)) {
    return "cuSOLVER is not installed";
  }
  return error;
}

CUDA_TEST(InverseByLibrary) {
  float value = 2;
  DeviceValues<float> one({value});
  Scratch scratch;
  CudaError error = nullptr;
  if (!InvertByLibrary(one.data(), one.data(), 1, 1, scratch.get(), nullptr, &error)) {
    std::printf("        skipped: cuSOLVER is not installed\n");
    return;
  }
  double worst = 0;
  for (const std::size_t n : {1, 2, 33, 300}) {
    CheckLarge<float>(n, 3, &worst, ByLibrary<float>);
    CheckLarge<double>(n, 3, &worst, ByLibrary<double>);
    CheckLarge<Float16>(n, 3, &worst, ByLibrary<Float16>);
  }
  if (!IsSmall()) CheckLarge<float>(3000, 1, &worst);
  std::printf("        residuals up to %.3f n eps |X| |Y|\n", worst);
  DeviceValues<float> singular({1, 2, 2, 4, 0, 2, 4, 0});
  Require(ByLibrary(singular.data(), singular.data(), 2, 2, scratch.get(), nullptr), "ByLibrary");
  const auto inverses = singular.Read();
  for (std::size_t i = 0; i < 4; ++i) {
    if (!std::isnan(inverses[i])) Fail("Inverse by library: a singular matrix");
  }
  if (inverses[5] != 0.25F || inverses[6] != 0.5F) Fail("Inverse by library: after a singular one");
}

CUDA_TEST(InverseSaysThatThereIsNoMemory) {
  DeviceValues<float> values(Random<float>(200 * 200, 1));
  Scratch none(/*has_memory=*/false);
  const CudaError error = InverseCuda(values.data(), values.data(), 200, 1, none.get(), nullptr);
  if (error != kNoDeviceMemory) Fail("Inverse without scratch memory");
}

/// Checks that an inverse depends neither on the other matrices nor on the address.
template <class T>
void CheckCountsAndAddresses() {
  for (const std::size_t n : {1, 2, 3, 4, 5, 8, 11, 16, 21, 32, 37, 64, 81}) {
    const std::size_t most = n > 32 ? 3 : n > 16 ? 9 : 140;
    const auto all = Random<T>(most * n * n, 3);
    const auto expected = Inverses(all, n);
    for (const std::size_t count : {0, 1, 2, 3, 5, 9, 31, 32, 33, 127, 129, 140}) {
      if (count > most || (IsSmall() && count > 40)) continue;
      for (const std::size_t offset : {0, 1, 2, 4}) {
        const std::vector<T> matrices(all.begin(), all.begin() + count * n * n);
        const auto inverses = Inverses(matrices, n, offset);
        DeviceValues<T> values(matrices, offset);
        Scratch scratch;
        Require(InverseCuda(values.data(), values.data(), n, count, scratch.get(), nullptr),
                "InverseCuda");
        const auto in_place = values.Read();
        if (!AreEqual(inverses.data(), expected.data(), inverses.size())) {
          Fail("Inverse of %zu %s, n %zu, at %zu", count, kNameOf<T>, n, offset);
        }
        if (!AreEqual(in_place.data(), expected.data(), in_place.size())) {
          Fail("Inverse of %zu %s, n %zu, at %zu in place", count, kNameOf<T>, n, offset);
        }
      }
    }
  }
}

CUDA_TEST(InverseOfAnyCountAndAddress) {
  CheckCountsAndAddresses<float>();
  CheckCountsAndAddresses<double>();
  CheckCountsAndAddresses<Float16>();
}

CUDA_TEST(InverseOfLargeBatches) {
  if (IsSmall()) return;
  for (const std::size_t n : {2, 4, 7, 16, 31, 64}) {
    const std::size_t few = 19;
    const std::size_t count = n > 32 ? 5'000 : 100'000;
    const auto matrices = Random<float>(few * n * n, 6);
    const auto expected = Inverses(matrices, n);
    std::vector<float> many(count * n * n);
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(&matrices[i % few * n * n], n * n, &many[i * n * n]);
    }
    const auto inverses = Inverses(many, n);
    for (std::size_t i = 0; i < count; ++i) {
      if (AreEqual(&inverses[i * n * n], &expected[i % few * n * n], n * n)) continue;
      Fail("Inverse of %zu, n %zu: number %zu", count, n, i);
      break;
    }
  }
}

/// Returns sizes for each of the ways in which matrices are inverted.
std::vector<std::size_t> SomeSizes() {
  if (IsSmall()) return {2, 3, 4, 6, 9, 16, 20, 32, 33, 64, 70, 150};
  return {2, 3, 4, 6, 9, 12, 16, 20, 25, 32, 33, 48, 64, 70, 96, 128, 150, 192, 200};
}

/// Checks matrices with one power of two in each row and column, whose inverses are exact.
template <class T>
void CheckRowsInAnyOrder() {
  std::mt19937 random(5);
  for (const std::size_t n : SomeSizes()) {
    const std::size_t count = n > 32 ? 2 : 21;
    std::vector<T> matrices(count * n * n), expected(count * n * n);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::size_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t r = 0; r < n; ++r) {
        const float value = std::ldexp(r % 2 == 0 ? 1.0F : -1.0F, static_cast<int>(r % 5));
        matrices[i * n * n + r * n + order[r]] = T(value);
        expected[i * n * n + order[r] * n + r] = T(1 / value);
      }
    }
    const auto inverses = Inverses(matrices, n);
    for (std::size_t i = 0; i < inverses.size(); ++i) {
      if (Value(inverses[i]) == Value(expected[i])) continue;
      Fail("Inverse of rows in another order, %s, n %zu, at %zu: %g, not %g", kNameOf<T>, n, i,
           Value(inverses[i]), Value(expected[i]));
      break;
    }
  }
}

CUDA_TEST(InverseOfRowsInAnyOrder) {
  CheckRowsInAnyOrder<float>();
  CheckRowsInAnyOrder<double>();
  CheckRowsInAnyOrder<Float16>();
}

template <class T>
void CheckBadlyScaled() {
  for (const std::size_t n : SomeSizes()) {
    // Orthogonal (Householder) matrices on both sides of a diagonal from 1 to 1 / condition.
    const double condition = 0.02 / Epsilon<T>();
    const auto u = Random<double>(2 * n, static_cast<unsigned>(n));
    const double* const v = u.data() + n;
    const auto square = [n](const double* x) { return std::inner_product(x, x + n, x, 0.0); };
    const double square_u = square(u.data()), square_v = square(v);
    std::vector<double> diagonal(n);
    for (std::size_t k = 0; k < n; ++k) {
      diagonal[k] = std::pow(condition, -static_cast<double>(k) / (n - 1.0));
    }
    std::vector<T> matrix(n * n);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n; ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < n; ++k) {
          const double left = (r == k) - 2 * u[r] * u[k] / square_u;
          const double right = (k == c) - 2 * v[k] * v[c] / square_v;
          sum += left * right * diagonal[k];
        }
        if constexpr (std::is_same_v<T, double>) {
          matrix[r * n + c] = sum;
        } else {
          matrix[r * n + c] = T(static_cast<float>(sum));
        }
      }
    }
    const auto inverse = Inverses(matrix, n);
    const double residual = Residual(matrix.data(), inverse.data(), n);
    if (!(residual <= 1)) Fail("Inverse of bad condition, %s, n %zu: %g", kNameOf<T>, n, residual);
    // Without pivoting, the ones of this matrix would be lost by rounding.
    std::vector<T> small_first(n * n);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n; ++c) {
        small_first[r * n + c] = T(r == c ? 1.0F / 8192 : r > c ? -1.0F : 1.0F);
      }
    }
    const auto other = Inverses(small_first, n);
    const double of_other = Residual(small_first.data(), other.data(), n);
    if (!(of_other <= 1)) Fail("Inverse of small pivots, %s, n %zu: %g", kNameOf<T>, n, of_other);
  }
}

CUDA_TEST(InverseOfBadlyScaledMatrices) {
  CheckBadlyScaled<float>();
  CheckBadlyScaled<double>();
  CheckBadlyScaled<Float16>();
}

template <class T>
void CheckSingular() {
  for (const std::size_t n : SomeSizes()) {
    const std::size_t count = n > 17 ? 3 : 39;
    for (const std::size_t zero : {std::size_t{0}, n / 2, n - 1}) {
      // Twice the identity, but every third matrix has zeros on the diagonal from `zero` on, or two
      // equal rows.
      std::vector<T> matrices(count * n * n);
      for (std::size_t i = 0; i < count; ++i) {
        T* const matrix = &matrices[i * n * n];
        for (std::size_t k = 0; k < n; ++k) {
          matrix[k * n + k] = T(i % 3 == 1 && k >= zero ? 0.0F : 2.0F);
        }
        if (i % 6 == 4) {
          for (std::size_t c = 0; c < n; ++c) {
            matrix[c] = matrix[(n - 1) * n + c] = T(static_cast<float>(1 + c % 3));
          }
        }
      }
      const auto inverses = Inverses(matrices, n);
      for (std::size_t i = 0; i < inverses.size(); ++i) {
        const std::size_t at = i % (n * n);
        const double value = Value(inverses[i]);
        const bool is_right =
            i / (n * n) % 3 == 1 ? std::isnan(value) : value == (at / n == at % n ? 0.5 : 0.0);
        if (is_right) continue;
        Fail("Inverse of singular ones, %s, n %zu, diagonal %zu, at %zu: %g", kNameOf<T>, n, zero,
             i, value);
        break;
      }
    }
  }
}

CUDA_TEST(InverseOfSingularMatricesIsNaN) {
  CheckSingular<float>();
  CheckSingular<double>();
  CheckSingular<Float16>();
}

template <class T>
void CheckNanAndInfinity() {
  for (const std::size_t n : SomeSizes()) {
    const std::size_t count = n > 17 ? 3 : 35;
    const std::size_t odd = count / 2;
    const auto good = Random<T>(count * n * n, 6);
    const auto expected = Inverses(good, n);
    for (const float value : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      for (const std::size_t at : {std::size_t{0}, n * n / 2, n * n - 1}) {
        auto matrices = good;
        matrices[odd * n * n + at] = T(value);
        const auto inverses = Inverses(matrices, n);
        bool has_nan = false;
        for (std::size_t i = 0; i < count; ++i) {
          const T* const inverse = &inverses[i * n * n];
          if (i == odd) {
            has_nan = std::any_of(inverse, inverse + n * n,
                                  [](const T& x) { return std::isnan(Value(x)); });
          } else if (!AreEqual(inverse, &expected[i * n * n], n * n)) {
            Fail("Inverse of %s, n %zu, beside %g: number %zu", kNameOf<T>, n, value, i);
          }
        }
        if (std::isnan(value) && !has_nan) Fail("Inverse of %s, n %zu, of a NaN", kNameOf<T>, n);
      }
    }
  }
  for (const T& x : Inverses<T>({T(0.0F), T(1.0F), T(std::nanf("")), T(1.0F)}, 2)) {
    if (!std::isnan(Value(x))) Fail("Inverse of %s: a NaN is no smaller than zero", kNameOf<T>);
  }
  const auto of_infinity = Inverses<T>({T(HUGE_VALF), T(0.0F), T(0.0F), T(2.0F)}, 2);
  if (Value(of_infinity[0]) != 0 || Value(of_infinity[3]) != 0.5) {
    Fail("Inverse of %s: of infinity", kNameOf<T>);
  }
}

CUDA_TEST(InverseKeepsNanAndInfinityInTheirMatrix) {
  CheckNanAndInfinity<float>();
  CheckNanAndInfinity<double>();
  CheckNanAndInfinity<Float16>();
}

}  // namespace
}  // namespace opgraft::contrib
