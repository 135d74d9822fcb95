// The inversion of small matrices: as many at once as a vector has lanes, one in each lane.
#pragma once

#include "ops/contrib/inverse/half.h"
#include "ops/contrib/inverse/inverse_variants.h"

namespace opgraft::contrib {
namespace {

/// One matrix in each lane, held by columns: what is in column c and row r is at [c * n + r].
template <class Real, std::size_t n>
struct ManyMatrices {
  Vector<Real> elements[n * n];
  /// Which column of the inverse stands in each place.
  Integers<Real> columns[n];
  /// The first zero pivot, or -1.
  Integers<Real> zero_pivot;
};

/// From `count` matrices, at least one; the last is in all lanes that are left.
template <class T, std::size_t n>
void LoadMany(const T* matrices, std::size_t count, ManyMatrices<Computed<T>, n>& many) {
  using Real = Computed<T>;
  constexpr std::size_t kCount = kLanes<Real>;
  const auto of_lane = [&](std::size_t lane) {
    return matrices + (lane < count ? lane : count - 1) * n * n;
  };
  const auto place = [](std::size_t element) { return element % n * n + element / n; };
  if constexpr (n * n >= kCount) {
    for (std::size_t at = 0; at < n * n; at += kCount) {
      const std::size_t start = at + kCount <= n * n ? at : n * n - kCount;
      Vector<Real> rows[kCount];
      for (std::size_t lane = 0; lane < kCount; ++lane) rows[lane] = LoadAs(of_lane(lane) + start);
      Transpose<Real>(rows);
      for (std::size_t i = 0; i < kCount; ++i) many.elements[place(start + i)] = rows[i];
    }
  } else {
    T lanes[n * n][kCount];
    for (std::size_t lane = 0; lane < kCount; ++lane) {
      const T* matrix = of_lane(lane);
      for (std::size_t i = 0; i < n * n; ++i) lanes[i][lane] = matrix[i];
    }
    for (std::size_t i = 0; i < n * n; ++i) many.elements[place(i)] = LoadAs(lanes[i]);
  }
}

template <class T, std::size_t n>
void StoreMany(const ManyMatrices<Computed<T>, n>& many, std::size_t count, T* matrices) {
  using Real = Computed<T>;
  constexpr std::size_t kCount = kLanes<Real>;
  T narrowed[sizeof(T) == sizeof(Real) ? 1 : n * n][kCount];
  const T* elements = narrowed[0];
  if constexpr (sizeof(T) == sizeof(Real)) {
    elements = reinterpret_cast<const T*>(many.elements);
  } else {
    for (std::size_t i = 0; i < n * n; ++i) StoreAs(many.elements[i], narrowed[i]);
  }
  for (std::size_t lane = 0; lane < count; ++lane) {
    T* matrix = matrices + lane * n * n;
    for (std::size_t k = 0; k < n; ++k) {
      T* column = matrix + many.columns[k][lane];
      for (std::size_t r = 0; r < n; ++r) column[r * n] = elements[(k * n + r) * kCount + lane];
    }
  }
}

/// Gauss-Jordan elimination in place. The inverse's columns stay in the order of the pivots.
template <class Real, std::size_t n>
void InvertMany(ManyMatrices<Real, n>& many) {
  using Integer = typename Simd<Real>::Integer;
  Vector<Real>* const elements = many.elements;
  Integers<Real>* const columns = many.columns;
  many.zero_pivot = Integers<Real>{} - 1;
  for (std::size_t k = 0; k < n; ++k) columns[k] = Integers<Real>{} + static_cast<Integer>(k);
  for (std::size_t k = 0; k < n; ++k) {
    Vector<Real>* const factors = elements + k * n;
    Integers<Real> greatest = Magnitude<Real>(factors[k]);
    Integers<Real> place = Integers<Real>{} + static_cast<Integer>(k);
    for (std::size_t r = k + 1; r < n; ++r) {
      const Integers<Real> magnitude = Magnitude<Real>(factors[r]);
      const Integers<Real> greater = magnitude > greatest;
      greatest = greater ? magnitude : greatest;
      place = greater ? Integers<Real>{} + static_cast<Integer>(r) : place;
    }
    Integers<Real> chosen[n];  // whether row r is the pivot's, for r > k
    for (std::size_t r = k + 1; r < n; ++r) chosen[r] = place == static_cast<Integer>(r);

    // The pivot's row and row k change places, here as below.
    const Vector<Real> top = factors[k];
    const Integers<Real> top_column = columns[k];
    Vector<Real> pivot = top;
    for (std::size_t r = k + 1; r < n; ++r) {
      pivot = Select<Real>(chosen[r], factors[r], pivot);
      factors[r] = Select<Real>(chosen[r], top, factors[r]);
      columns[k] = chosen[r] ? columns[r] : columns[k];
      columns[r] = chosen[r] ? top_column : columns[r];
    }
    const Integers<Real> is_first_zero = (pivot == 0) & (many.zero_pivot < 0);
    many.zero_pivot = is_first_zero ? Integers<Real>{} + static_cast<Integer>(k) : many.zero_pivot;
    factors[k] = Vector<Real>{} + 1;
    for (std::size_t r = 0; r < n; ++r) factors[r] /= pivot;

    for (std::size_t c = 0; c < n; ++c) {
      if (c == k) continue;
      Vector<Real>* const column = elements + c * n;
      const Vector<Real> column_top = column[k];
      Vector<Real> taken = column_top;
      for (std::size_t r = k + 1; r < n; ++r) taken = Select<Real>(chosen[r], column[r], taken);
      for (std::size_t r = 0; r < k; ++r) column[r] -= taken * factors[r];
      column[k] = Vector<Real>{} - taken * factors[k];
      for (std::size_t r = k + 1; r < n; ++r) {
        column[r] = Select<Real>(chosen[r], column_top, column[r]) - taken * factors[r];
      }
    }
  }
}

template <class T, std::size_t n>
SingularMatrix InvertGroup(const T* matrices, T* inverses, std::size_t count, void* scratch) {
  auto& many = *static_cast<ManyMatrices<Computed<T>, n>*>(scratch);
  LoadMany<T, n>(matrices, count, many);
  InvertMany<Computed<T>, n>(many);
  for (std::size_t lane = 0; lane < count; ++lane) {
    if (many.zero_pivot[lane] >= 0) {
      return {static_cast<std::int64_t>(lane), static_cast<std::int64_t>(many.zero_pivot[lane])};
    }
  }
  StoreMany<T, n>(many, count, inverses);
  return {};
}

constexpr std::size_t kLargestOfMany = 16;

/// InvertGroup for n×n matrices, n from 1 to kLargestOfMany; `scratch` is aligned for vectors.
template <class T>
using GroupFunction = SingularMatrix (*)(const T*, T*, std::size_t, void*);

template <class T>
GroupFunction<T> GroupFunctionFor(std::size_t n) {
  return [n]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr GroupFunction<T> kFunctions[] = {InvertGroup<T, I + 1>...};
    return kFunctions[n - 1];
  }(std::make_index_sequence<kLargestOfMany>());
}

}  // namespace
}  // namespace opgraft::contrib
