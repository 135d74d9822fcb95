// SIMD vectors of OPGRAFT_VECTOR_BYTES, by the vector extensions of GCC and Clang.
//
// Included by files that are compiled for more than the baseline. Everything is in an unnamed
// namespace, and neither this file nor its users call inline functions of other headers: the linker
// keeps one copy of such a function, which must not be one that only some CPUs can run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace opgraft::contrib {
namespace {

constexpr std::size_t kVectorBytes = OPGRAFT_VECTOR_BYTES;

template <class Real>
struct Simd;

template <>
struct Simd<float> {
  using Integer = std::int32_t;
  typedef float Vector __attribute__((vector_size(kVectorBytes)));
  typedef std::int32_t Integers __attribute__((vector_size(kVectorBytes)));
};

template <>
struct Simd<double> {
  using Integer = std::int64_t;
  typedef double Vector __attribute__((vector_size(kVectorBytes)));
  typedef std::int64_t Integers __attribute__((vector_size(kVectorBytes)));
};

template <class Real>
using Vector = typename Simd<Real>::Vector;

/// A vector of integers with the layout of a vector of Real. Comparisons give such vectors of 0 and
/// -1.
template <class Real>
using Integers = typename Simd<Real>::Integers;

template <class Real>
constexpr std::size_t kLanes = kVectorBytes / sizeof(Real);

constexpr std::size_t RoundUp(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

/// Calls function.operator()<i>() for i from kFrom to kTo - 1. Arrays that are indexed by i can
/// stay in registers.
template <std::size_t kFrom, std::size_t kTo, class Function>
[[gnu::always_inline]] inline void ForEach(const Function& function) {
  [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
    (function.template operator()<kFrom + I>(), ...);
  }(std::make_index_sequence<(kTo > kFrom ? kTo - kFrom : 0)>());
}

template <class Real>
Vector<Real> Load(const Real* from) {
  Vector<Real> vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <class Real>
void Store(const Vector<Real>& vector, Real* to) {
  __builtin_memcpy(to, &vector, sizeof(vector));
}

/// Returns whether the elimination of an n×n matrix uses fused products. It does not for the
/// smallest matrices, where users would notice, so that rounding gives the same zeros as in LAPACK.
constexpr bool IsFused(std::size_t n) { return n > 4; }

/// Returns minuend - factors * vector, rounded once if the CPU can do that.
template <class Real>
Vector<Real> MinusProduct(const Vector<Real>& minuend, const Vector<Real>& factors,
                          const Vector<Real>& vector) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Real) == 4) return _mm512_fnmadd_ps(factors, vector, minuend);
  if constexpr (sizeof(Real) == 8) return _mm512_fnmadd_pd(factors, vector, minuend);
#elif defined(__FMA__)
  if constexpr (sizeof(Real) == 4) return _mm256_fnmadd_ps(factors, vector, minuend);
  if constexpr (sizeof(Real) == 8) return _mm256_fnmadd_pd(factors, vector, minuend);
#else
  return minuend - factors * vector;
#endif
}

/// Returns integers with the order of the absolute values. NaN is greater than infinity, so that it
/// is not lost.
template <class Real>
Integers<Real> Magnitude(const Vector<Real>& vector) {
  using Integer = typename Simd<Real>::Integer;
  constexpr auto kAllButSign = static_cast<Integer>(~(Integer{1} << (8 * sizeof(Real) - 1)));
  return reinterpret_cast<Integers<Real>>(vector) & kAllButSign;
}

/// Returns 0, 1, 2, ...
template <class Real>
Integers<Real> LaneNumbers() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return Integers<Real>{static_cast<typename Simd<Real>::Integer>(I)...};
  }(std::make_index_sequence<kLanes<Real>>());
}

/// Returns a0 b0 a1 b1 ..., of the lower half (kHalf 0) or the upper half (1).
template <class Real, std::size_t kHalf, std::size_t... I>
Vector<Real> Interleave(const Vector<Real>& a, const Vector<Real>& b, std::index_sequence<I...>) {
  constexpr std::size_t kCount = kLanes<Real>;
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * kCount + kHalf * kCount / 2)...);
}

template <class Real>
void Transpose(Vector<Real> (&rows)[kLanes<Real>]) {
  constexpr std::size_t kCount = kLanes<Real>;
  constexpr std::make_index_sequence<kCount> kAll;
  for (std::size_t step = 1; step < kCount; step *= 2) {
    Vector<Real> next[kCount];
    for (std::size_t i = 0; i < kCount / 2; ++i) {
      next[2 * i] = Interleave<Real, 0>(rows[i], rows[i + kCount / 2], kAll);
      next[2 * i + 1] = Interleave<Real, 1>(rows[i], rows[i + kCount / 2], kAll);
    }
    for (std::size_t i = 0; i < kCount; ++i) rows[i] = next[i];
  }
}

/// The number of elements in 16 bytes, within which moving elements is cheapest.
template <class Real>
constexpr std::size_t kPiece = 16 / sizeof(Real);

/// Returns one vector followed by the other.
template <class V, std::size_t... I>
auto Join(const V& a, const V& b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, I...);
}

/// Returns a vector of the pieces at `address(0)`, `address(1)`...
template <class Real, std::size_t kBytes = kVectorBytes, class Function>
[[gnu::always_inline]] inline auto LoadPieces(const Function& address, std::size_t first = 0) {
  if constexpr (kBytes == 16) {
    typedef Real Piece __attribute__((vector_size(16)));
    Piece piece;
    __builtin_memcpy(&piece, address(first), sizeof(piece));
    return piece;
  } else {
    return Join(LoadPieces<Real, kBytes / 2>(address, first),
                LoadPieces<Real, kBytes / 2>(address, first + kBytes / 32),
                std::make_index_sequence<kBytes / sizeof(Real)>());
  }
}

/// Like Interleave, but within each piece.
template <class Real, std::size_t kHalf, std::size_t... I>
Vector<Real> InterleavePieces(const Vector<Real>& a, const Vector<Real>& b,
                              std::index_sequence<I...>) {
  constexpr std::size_t kCount = kLanes<Real>;
  constexpr std::size_t kSize = kPiece<Real>;
  return __builtin_shufflevector(
      a, b, (I / kSize * kSize + I % kSize / 2 + I % 2 * kCount + kHalf * kSize / 2)...);
}

/// Transposes the squares that are at the same place in all vectors.
template <class Real>
void TransposePieces(Vector<Real> (&rows)[kPiece<Real>]) {
  constexpr std::make_index_sequence<kLanes<Real>> kAll;
  constexpr std::size_t kSize = kPiece<Real>;
  for (std::size_t step = 1; step < kSize; step *= 2) {
    Vector<Real> next[kSize];
    for (std::size_t i = 0; i < kSize / 2; ++i) {
      next[2 * i] = InterleavePieces<Real, 0>(rows[i], rows[i + kSize / 2], kAll);
      next[2 * i + 1] = InterleavePieces<Real, 1>(rows[i], rows[i + kSize / 2], kAll);
    }
    for (std::size_t i = 0; i < kSize; ++i) rows[i] = next[i];
  }
}

/// Whether there is a Permute for this type.
template <class Real>
constexpr bool kCanPermute = kVectorBytes == 64 || (kVectorBytes == 32 && sizeof(Real) == 4);

/// Lane i of the result is lane from[i].
#ifdef __AVX512F__
inline Vector<float> Permute(const Vector<float>& vector, const Integers<float>& from) {
  return _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(from), vector);
}
inline Vector<double> Permute(const Vector<double>& vector, const Integers<double>& from) {
  return _mm512_maskz_permutexvar_pd(0xff, reinterpret_cast<__m512i>(from), vector);
}
#elif defined(__AVX2__)
inline Vector<float> Permute(const Vector<float>& vector, const Integers<float>& from) {
  return _mm256_permutevar8x32_ps(vector, reinterpret_cast<__m256i>(from));
}
#endif

/// Rotates the lanes: lane i goes to lane i - kBy.
template <std::size_t kBy, class V, std::size_t... I>
V Rotate(const V& vector, std::index_sequence<I...>) {
  return __builtin_shufflevector(vector, vector, ((I + kBy) % sizeof...(I))...);
}

}  // namespace
}  // namespace opgraft::contrib
