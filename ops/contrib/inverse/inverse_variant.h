// The inversion with vectors of OPGRAFT_VECTOR_BYTES. Included once by each file that compiles it.
#pragma once

#include "ops/contrib/inverse/inverse_many.h"
#include "ops/contrib/inverse/inverse_one.h"
#include "ops/contrib/inverse/inverse_variants.h"

namespace opgraft::contrib {
namespace {

/// The smallest number of matrices for which a group is faster than one after the other.
template <class Real>
constexpr std::size_t SmallestGroup(std::size_t n) {
  return n <= kLargestOfMany<Real> / 2 ? 2 : kLanes<Real> / 4 + 1;
}

constexpr std::size_t kAlignment = 64;

/// More than this is probably not in the cache of one processor.
constexpr std::size_t kNearBytes = 512 << 10;

template <class T>
std::size_t ScratchBytesOf(std::size_t n) {
  using Real = Computed<T>;
  const std::size_t of_one = OneMatrix<Real>::ScratchBytes(n);
  const std::size_t of_many = n <= kLargestOfMany<Real> ? sizeof(ManyMatrices<Real, 1>) * n * n : 0;
  return (of_one > of_many ? of_one : of_many) + kAlignment;
}

template <class T>
SingularMatrix InvertRange(const T* matrices, T* inverses, std::size_t n, std::size_t first,
                           std::size_t last, void* scratch) {
  using Real = Computed<T>;
  const auto address = reinterpret_cast<std::uintptr_t>(scratch);
  void* const aligned = static_cast<char*>(scratch) + (RoundUp(address, kAlignment) - address);
  std::size_t at = first;
  if (n <= kLargestOfMany<Real>) {
    const GroupFunction<T> invert_group = GroupFunctionFor<T>(n);
    const bool are_far = (last - first) * n * n * sizeof(T) > kNearBytes;
    while (last - at >= SmallestGroup<Real>(n)) {
      const std::size_t count = last - at < kLanes<Real> ? last - at : kLanes<Real>;
      const SingularMatrix found =
          invert_group(matrices + at * n * n, inverses + at * n * n, count, are_far, aligned);
      if (found.matrix >= 0) return {found.matrix + static_cast<std::int64_t>(at), found.diagonal};
      at += count;
    }
  }
  OneMatrix<Real> matrix(n, aligned);
  for (; at < last; ++at) {
    matrix.LoadFrom(matrices + at * n * n);
    const std::int64_t zero_pivot = matrix.Invert();
    if (zero_pivot >= 0) return {static_cast<std::int64_t>(at), zero_pivot};
    matrix.StoreTo(inverses + at * n * n);
  }
  return {};
}

template <class T>
constexpr InverseFunctions<T> kFunctions = {ScratchBytesOf<T>, InvertRange<T>};

constexpr InverseVariant kVariant = {kFunctions<float>, kFunctions<double>,
                                     kFunctions<std::uint16_t>};

}  // namespace
}  // namespace opgraft::contrib
