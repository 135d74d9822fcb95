// float16 in vectors: stored as 16 bits, computed as float.
#pragma once

#include "ops/contrib/inverse/vectors.h"

namespace opgraft::contrib {
namespace {

/// The type in which computations with an element type are done.
template <class T>
struct ComputedAs {
  using Type = T;
};
template <>
struct ComputedAs<std::uint16_t> {
  using Type = float;
};
template <class T>
using Computed = typename ComputedAs<T>::Type;

typedef std::uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));

// With masks, because GCC 12 warns about uninitialised values in the intrinsics without one.
inline Vector<float> Widen(const Halves& halves) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(halves));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves));
#else
  const auto words = __builtin_convertvector(halves, Words);
  const Words magnitude = (words & 0x7fffU) << 13;
  // The exponents' biases differ by 112; multiplying by 2^112 is correct for subnormals too.
  constexpr std::uint32_t kScale = (127U + 112U) << 23;
  const auto scaled = reinterpret_cast<Vector<float>>(magnitude) *
                      reinterpret_cast<Vector<float>>(Words{} + kScale);
  const auto special = reinterpret_cast<Words>(magnitude >= (0x7c00U << 13));
  const Words bits = reinterpret_cast<Words>(scaled) | (special & (0xffU << 23));
  return reinterpret_cast<Vector<float>>(bits | (words & 0x8000U) << 16);
#endif
}

/// Rounds to the nearest value, ties to even.
inline Halves Narrow(const Vector<float>& vector) {
#if defined(__AVX512F__)
  return reinterpret_cast<Halves>(_mm512_maskz_cvtps_ph(0xffff, vector, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  return reinterpret_cast<Halves>(_mm256_cvtps_ph(vector, _MM_FROUND_TO_NEAREST_INT));
#else
  const auto words = reinterpret_cast<Words>(vector);
  const Words magnitude = words & 0x7fffffffU;
  const auto select = [](const Words& mask, const Words& yes, const Words& no) {
    return (mask & yes) | (~mask & no);
  };
  // Normal numbers: changes the bias, and rounds by adding half of the last place, or slightly
  // less.
  const Words normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  // Subnormals: after adding 0.5, the low bits are the multiple of 2^-24, rounded by the CPU.
  const auto half = reinterpret_cast<Vector<float>>(Words{} + (126U << 23));
  const Words subnormal =
      reinterpret_cast<Words>(reinterpret_cast<Vector<float>>(magnitude) + half) - (126U << 23);
  const Words special = select(reinterpret_cast<Words>(magnitude > (0xffU << 23)),
                               0x7e00U | (magnitude >> 13 & 0x3ffU), Words{} + 0x7c00U);
  const auto is_subnormal = reinterpret_cast<Words>(magnitude < (113U << 23));
  const auto is_special = reinterpret_cast<Words>(magnitude >= (143U << 23));
  const Words bits = select(is_special, special, select(is_subnormal, subnormal, normal));
  return __builtin_convertvector(bits | (words >> 16 & 0x8000U), Halves);
#endif
}

/// Loads a vector of elements that are stored as T.
template <class T>
Vector<Computed<T>> LoadAs(const T* from) {
  if constexpr (sizeof(T) == sizeof(Computed<T>)) {
    return Load(from);
  } else {
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return Widen(halves);
  }
}

template <class T>
void StoreAs(const Vector<Computed<T>>& vector, T* to) {
  if constexpr (sizeof(T) == sizeof(Computed<T>)) {
    Store(vector, to);
  } else {
    const Halves halves = Narrow(vector);
    __builtin_memcpy(to, &halves, sizeof(halves));
  }
}

}  // namespace
}  // namespace opgraft::contrib
