// Gelu: one computation on vectors, compiled for each instruction set and chosen at run time.
#include "ops/contrib/gelu/gelu_cpu.h"

#include <cmath>
#include <numbers>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace opgraft::contrib {
namespace {

namespace gelu_constants {

// The boundary between the two formulas.
constexpr float kNear = 1.0F;
// For larger |x|, x times the tail probability is less than half of the smallest float.
constexpr float kVanishing = 14.5F;
// erf(x / sqrt 2) / (2 x) as a polynomial in x^2, for |x| < kNear; its relative error is 4e-8.
constexpr float kCentre[] = {0.39894214F, -0.06648818F, 0.009962364F, -0.0011630689F,
                             9.1490874e-5F};
// An integer below 2^22 added to 1.5 * 2^23 appears in the lowest bits; the 64 is for the scale.
constexpr float kRounder = 0x1.8p23F + 64;
constexpr float kMinusInverseTwoLog2 = -0.72134752F;
// 2 log 2 in two parts; products of the first part with integers up to 2^9 are exact.
constexpr float kTwoLog2High = 0x1.62e4p0F;
constexpr float kTwoLog2Low = 2.8572136e-6F;
// exp(-r / 2) for |r| <= log 2, with an error of 5e-9.
constexpr float kExponential[] = {1.0F,         -0.5F,          0.12499998F, -0.020833086F,
                                  0.002604279F, -0.0002617003F, 2.163057e-5F};
// exp(a^2 / 2) times the normal distribution's tail probability above a, for
// kNear <= a <= kVanishing, with an error of 3.7e-8: the quotient of two polynomials with positive
// coefficients. The numerator includes the sign, and the scale that undoes the exponential's.
constexpr float kScale = -0x1p-64F;
constexpr float kNumerator[] = {0.4997889F * kScale, 0.40020442F * kScale, 0.14384867F * kScale,
                                0.024505166F * kScale};
constexpr float kDenominator[] = {1.0F, 1.5961958F, 1.0661123F, 0.36049995F, 0.0614269F};

}  // namespace gelu_constants

/// The functions for one instruction set.
struct Functions {
  void (*of_float)(const float* x, float* y, std::size_t count);
  void (*of_float16)(const std::uint16_t* x, std::uint16_t* y, std::size_t count);
  void (*of_bfloat16)(const std::uint16_t* x, std::uint16_t* y, std::size_t count);
};

namespace baseline {
#define OPGRAFT_VECTOR_BYTES 16
#define OPGRAFT_TARGET
#include "ops/contrib/gelu/gelu_vectors.inc"
#undef OPGRAFT_TARGET
#undef OPGRAFT_VECTOR_BYTES
}  // namespace baseline

#if defined(__x86_64__)
namespace avx2 {
#define OPGRAFT_VECTOR_BYTES 32
#define OPGRAFT_TARGET __attribute__((target("avx2,fma")))
#include "ops/contrib/gelu/gelu_vectors.inc"
#undef OPGRAFT_TARGET
#undef OPGRAFT_VECTOR_BYTES
}  // namespace avx2

namespace avx512 {
#define OPGRAFT_VECTOR_BYTES 64
#define OPGRAFT_TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#include "ops/contrib/gelu/gelu_vectors.inc"
#undef OPGRAFT_TARGET
#undef OPGRAFT_VECTOR_BYTES
}  // namespace avx512
#endif

const Functions& FunctionsFor([[maybe_unused]] InstructionSet instructions) {
#if defined(__x86_64__)
  if (instructions == InstructionSet::kAvx512) return avx512::kFunctions;
  if (instructions == InstructionSet::kAvx2) return avx2::kFunctions;
#endif
  return baseline::kFunctions;
}

/// Computes Gelu of one double. erfc is accurate if its argument is.
double GeluOf(double x) {
  constexpr double kRootOfHalf = 0x1.6a09e667f3bcdp-1;
  constexpr double kRootOfHalfRest = -0x1.bdd3413b26456p-55;
  const double argument = -x * kRootOfHalf;
  double share = 0.5 * std::erfc(argument);
  if (share == 0) return -0.0;  // x may be minus infinity
  if (argument > 0.5) {
    // The rounding error of the argument is amplified by the slope of log erfc, up to 50 in the
    // tail.
    const double rounding = std::fma(-x, kRootOfHalf, -argument) - x * kRootOfHalfRest;
    share -= share * rounding * (argument + std::sqrt(argument * argument + 4 / std::numbers::pi));
  }
  return x * share;
}

}  // namespace

void Gelu(const float* x, float* y, std::size_t count, InstructionSet instructions) {
  FunctionsFor(instructions).of_float(x, y, count);
}

void GeluFloat16(const std::uint16_t* x, std::uint16_t* y, std::size_t count,
                 InstructionSet instructions) {
  FunctionsFor(instructions).of_float16(x, y, count);
}

void GeluBFloat16(const std::uint16_t* x, std::uint16_t* y, std::size_t count,
                  InstructionSet instructions) {
  FunctionsFor(instructions).of_bfloat16(x, y, count);
}

void Gelu(const double* x, double* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = GeluOf(x[i]);
}

}  // namespace opgraft::contrib
