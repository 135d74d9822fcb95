// Tests Gelu on the GPU against the formula in long double.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/contrib/gelu/gelu_cuda.h"
#include "tests/cuda/kernel_testing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

/// Uses erfc, which does not cancel for negative x.
long double Reference(long double x) {
  if (std::isinf(x)) return x > 0 ? x : -0.0L;
  return 0.5L * x * std::erfc(-x * 0.707106781186547524400844362104849039L);
}

template <class T>
std::vector<T> Compute(const std::vector<T>& x) {
  DeviceValues<T> from(x);
  DeviceValues<T> to(std::vector<T>(x.size(), T(77.0F)));
  Require(GeluCuda(from.data(), to.data(), x.size(), nullptr), "GeluCuda");
  return to.Read();
}

/// Returns the error of y in units of the last place.
double ErrorInLastPlaces(double y, long double right, int digits, int least_exponent) {
  if (right == 0) return y == 0 ? 0 : 1e9;
  const int exponent = std::max(std::ilogb(right), least_exponent);
  return static_cast<double>(std::abs(y - right) / std::scalbn(1.0L, exponent - digits + 1));
}

CUDA_TEST(GeluOfFloatsIsAccurate) {
  std::vector<float> x;
  const std::uint32_t step = IsSmall() ? 100'003 : 997;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(100.0F); bits += step) {
    const auto value = std::bit_cast<float>(bits);
    x.push_back(value);
    if (value < 14.5F) x.push_back(-value);
  }
  for (const float centre : {-1.0F, 1.0F, -14.4F, -13.2F}) {
    float up = centre, down = centre;
    for (int i = 0; i < 200; ++i) {
      x.push_back(up = std::nextafter(up, 100.0F));
      x.push_back(down = std::nextafter(down, -100.0F));
    }
  }
  const std::vector<float> y = Compute(x);
  double positive = 0, near = 0, negative = 0, sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ErrorInLastPlaces(y[i], Reference(x[i]), 24, -126);
    double& worst = x[i] >= 0 ? positive : x[i] > -1 ? near : negative;
    if (!(error <= worst)) worst = error;
    if (x[i] < -1) sum += error;
    if (!(error <= 10)) Fail("Gelu of %.9g is %.9g", x[i], y[i]);
  }
  std::printf("        units of the last place: %.2f, -1 to 0 %.2f, below %.2f\n", positive, near,
              negative);
  if (!(positive <= 2 && near <= 3)) Fail("Gelu of floats is not accurate near 0 or above");
}

CUDA_TEST(GeluOfFloatsKnowsSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> x = {0.0F,      -0.0F,         kInfinity,      -kInfinity, kLargest,
                                -kLargest, 4 * kSmallest, -4 * kSmallest, -20.0F,     20.0F,
                                1e-30F,    -1e-30F,       kNaN,           -kNaN};
  const std::vector<float> right = {0.0F,     -0.0F, kInfinity,     -0.0F,
                                    kLargest, -0.0F, 2 * kSmallest, -2 * kSmallest,
                                    -0.0F,    20.0F, 0.5e-30F,      -0.5e-30F};
  const std::vector<float> y = Compute(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool is_right = i < right.size()
                              ? std::bit_cast<int>(y[i]) == std::bit_cast<int>(right[i])
                              : std::isnan(y[i]);
    if (!is_right) Fail("Gelu of %g is %g", x[i], y[i]);
  }
  const std::vector<double> of_doubles =
      Compute<double>({0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), -50.0, 1e300, -1e300});
  const std::vector<double> right_doubles = {0.0, -0.0, HUGE_VAL, -0.0, 1, -0.0, 1e300, -0.0};
  for (std::size_t i = 0; i < of_doubles.size(); ++i) {
    const bool is_right = i == 4 ? std::isnan(of_doubles[i])
                                 : std::bit_cast<std::int64_t>(of_doubles[i]) ==
                                       std::bit_cast<std::int64_t>(right_doubles[i]);
    if (!is_right) Fail("Gelu of double %zu is %g", i, of_doubles[i]);
  }
}

CUDA_TEST(GeluOfDoublesIsAccurate) {
  std::vector<double> x;
  for (double value = -37; value < 10; value += IsSmall() ? 0.1003 : 0.0010003) x.push_back(value);
  const std::vector<double> y = Compute(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double right = Reference(x[i]);
    const auto error = static_cast<double>(std::abs((y[i] - right) / right));
    if (!(error <= worst)) worst = error;
  }
  std::printf("        relative error %.2g\n", worst);
  if (!(worst < 3e-15)) Fail("Gelu of doubles: a relative error of %g", worst);
}

/// Checks every value of a 16-bit type.
template <class T>
void CheckShort(int digits, int least_exponent) {
  std::vector<T> x;
  for (int bits = 0; bits < 0x10000; bits += IsSmall() ? 37 : 1) {
    x.push_back(T::FromBits(static_cast<std::uint16_t>(bits)));
  }
  const std::vector<T> y = Compute(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float value = x[i];
    if (std::isnan(value) || std::isinf(value)) {
      const bool is_right = std::isnan(value) ? std::isnan(float{y[i]})
                            : value > 0       ? float{y[i]} == value
                                              : y[i].bits() == 0x8000;
      if (!is_right) Fail("Gelu of %s %g is %g", kNameOf<T>, value, float{y[i]});
      continue;
    }
    if (std::signbit(value) != std::signbit(float{y[i]})) {
      Fail("Gelu of %s %g has the wrong sign", kNameOf<T>, value);
    }
    const double error = ErrorInLastPlaces(float{y[i]}, Reference(value), digits, least_exponent);
    worst = std::max(worst, error);
  }
  std::printf("        %s: %.4f units of the last place\n", kNameOf<T>, worst);
  if (worst > 0.51) Fail("Gelu of %s is off by %g units of the last place", kNameOf<T>, worst);
}

CUDA_TEST(GeluOfShortTypesIsTheNearest) {
  CheckShort<Float16>(11, -14);
  CheckShort<BFloat16>(8, -126);
}

template <class T>
void CheckCountsAndAddresses() {
  const std::vector<T> values = Random<T>(5000, 1);
  const std::vector<T> right = Compute(values);
  for (const std::size_t count :
       {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 97, 1023, 1024, 1025, 4099}) {
    for (const std::size_t offset : {0, 1, 2, 3, 5, 8}) {
      for (const std::size_t other : {offset, offset + 1}) {
        const std::vector<T> x(values.begin(), values.begin() + count);
        DeviceValues<T> from(x, offset);
        DeviceValues<T> to(std::vector<T>(count, T(77.0F)), other);
        Require(GeluCuda(from.data(), to.data(), count, nullptr), "GeluCuda");
        const std::vector<T> y = to.Read();
        Require(GeluCuda(from.data(), from.data(), count, nullptr), "GeluCuda");
        const std::vector<T> in_place = from.Read();
        if (count == 0) continue;
        if (std::memcmp(y.data(), right.data(), count * sizeof(T)) != 0) {
          Fail("Gelu of %zu %s at %zu to %zu", count, kNameOf<T>, offset, other);
        }
        if (std::memcmp(in_place.data(), right.data(), count * sizeof(T)) != 0) {
          Fail("Gelu of %zu %s at %zu in place", count, kNameOf<T>, offset);
        }
      }
    }
  }
}

CUDA_TEST(GeluTakesAnyCountAndAddress) {
  CheckCountsAndAddresses<float>();
  CheckCountsAndAddresses<double>();
  CheckCountsAndAddresses<Float16>();
  CheckCountsAndAddresses<BFloat16>();
}

// More elements than 31 or 32 bits can index: every position must get its own value.
CUDA_TEST(GeluTakesMoreThan32Bits) {
  if (IsSmall()) return;
  const std::size_t count = (std::size_t{1} << 32) + 5;
  BFloat16* x = nullptr;
  Require(cudaMalloc(&x, count * 2), "cudaMalloc");
  Require(cudaMemset(x, 0, count * 2), "cudaMemset");
  const std::vector<std::size_t> places = {0,         1,         (1U << 31) - 1, 1U << 31,
                                           count - 6, count - 5, count - 2,      count - 1};
  const std::vector<BFloat16> values(places.size(), BFloat16(1.0F));
  for (const std::size_t place : places) {
    Require(cudaMemcpy(x + place, values.data(), 2, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  Require(GeluCuda(x, x, count, nullptr), "GeluCuda");
  Require(cudaDeviceSynchronize(), "GeluCuda");
  for (const std::size_t place : places) {
    BFloat16 y;
    Require(cudaMemcpy(&y, x + place, 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (float{y} != float{BFloat16(0.8413447F)}) Fail("Gelu of element %zu", place);
  }
  Require(cudaFree(x), "cudaFree");
}

}  // namespace
}  // namespace opgraft::contrib
