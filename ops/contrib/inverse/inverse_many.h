// Inverts small matrices: as many at once as a vector has lanes, one in each lane.
#pragma once

#include "ops/contrib/inverse/half.h"
#include "ops/contrib/inverse/inverse_variants.h"

namespace opgraft::contrib {
namespace {

/// One matrix in each lane, stored by columns: the element in column c and row r is at [c * n + r].
template <class Real, std::size_t n>
struct ManyMatrices {
  Vector<Real> elements[n * n];
  /// For each stored column, which column of the inverse it is.
  Integers<Real> columns[n];
  /// The first zero pivot, or -1.
  Integers<Real> zero_pivot;
};

/// Loads `count` matrices, at least one; the last one fills all remaining lanes.
template <class T, std::size_t n>
[[gnu::noinline]] void LoadMany(const T* matrices, std::size_t count,
                                ManyMatrices<Computed<T>, n>& many) {
  using Real = Computed<T>;
  constexpr std::size_t kCount = kLanes<Real>;
  const auto of_lane = [&](std::size_t lane) {
    return matrices + (lane < count ? lane : count - 1) * n * n;
  };
  const auto place = [](std::size_t element) { return element % n * n + element / n; };
  if constexpr (std::is_same_v<T, Real> && n * n >= kPiece<Real>) {
    for (std::size_t at = 0; at < n * n; at += kPiece<Real>) {
      const std::size_t start = at + kPiece<Real> <= n * n ? at : n * n - kPiece<Real>;
      Vector<Real> pieces[kPiece<Real>];
      for (std::size_t i = 0; i < kPiece<Real>; ++i) {
        pieces[i] = LoadPieces<Real>(
            [&](std::size_t piece) { return of_lane(piece * kPiece<Real> + i) + start; });
      }
      TransposePieces<Real>(pieces);
      for (std::size_t i = 0; i < kPiece<Real>; ++i) many.elements[place(start + i)] = pieces[i];
    }
  } else if constexpr (n * n >= kCount) {
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
[[gnu::noinline]] void StoreMany(const ManyMatrices<Computed<T>, n>& many, std::size_t count,
                                 T* matrices) {
  using Real = Computed<T>;
  constexpr std::size_t kCount = kLanes<Real>;
  if constexpr (kCanPermute<Real> && n <= kCount && n >= kCount / 2) {
    Integers<Real> places[kCount] = {};  // in each matrix, where the inverse's columns are stored
    for (std::size_t lane = 0; lane < kCount; ++lane) {
      for (std::size_t k = 0; k < n; ++k) places[lane][many.columns[k][lane]] = k;
    }
    for (std::size_t r = 0; r < n; ++r) {
      Vector<Real> rows[kCount] = {};
      for (std::size_t k = 0; k < n; ++k) rows[k] = many.elements[k * n + r];
      Transpose<Real>(rows);
      for (std::size_t lane = 0; lane < count; ++lane) {
        T row[kCount];
        StoreAs(Permute(rows[lane], places[lane]), row);
        __builtin_memcpy(matrices + (lane * n + r) * n, row, n * sizeof(T));
      }
    }
  } else {
    T narrowed[sizeof(T) == sizeof(Real) ? 1 : n * n][kCount];
    const T* elements = narrowed[0];
    if constexpr (sizeof(T) == sizeof(Real)) {
      elements = reinterpret_cast<const T*>(many.elements);
    } else {
      for (std::size_t i = 0; i < n * n; ++i) StoreAs(many.elements[i], narrowed[i]);
    }
    for (std::size_t lane = 0; lane < count; ++lane) {
      for (std::size_t k = 0; k < n; ++k) {
        T* const column = matrices + lane * n * n + many.columns[k][lane];
        for (std::size_t r = 0; r < n; ++r) column[r * n] = elements[(k * n + r) * kCount + lane];
      }
    }
  }
}

/// The number of steps that are done in their own columns before all are done in the others.
constexpr std::size_t kSteps = 4;

/// What a step does to a column: it swaps rows k and `place`, then subtracts the element in row k,
/// times the factors, from all rows.
template <class Real, std::size_t n>
struct Step {
  /// The pivot's row.
  Integers<Real> place;
  Vector<Real> factors[n];
};

/// Returns the number of a row, in each lane.
template <class Real>
Integers<Real> Row(std::size_t row) {
  return Integers<Real>{} + static_cast<typename Simd<Real>::Integer>(row);
}

/// Does step k in its own column: chooses the pivot, and computes the factors.
template <class Real, std::size_t n>
[[gnu::noinline]] void TakeStep(ManyMatrices<Real, n>& many, std::size_t k, Step<Real, n>& step) {
  if (k >= n) __builtin_unreachable();
  Vector<Real>* const column = many.elements + k * n;
  Integers<Real> greatest = Magnitude<Real>(column[k]);
  for (std::size_t r = k + 1; r < n; ++r) {
    const Integers<Real> magnitude = Magnitude<Real>(column[r]);
    greatest = magnitude > greatest ? magnitude : greatest;
  }
  const Vector<Real> top = column[k];
  const Integers<Real> top_column = many.columns[k];
  Vector<Real> pivot = top;
  Integers<Real> pivot_column = top_column;
  Integers<Real> place = Row<Real>(k);
  Integers<Real> is_open = Magnitude<Real>(top) < greatest;  // the first of equals is chosen
  for (std::size_t r = k + 1; r < n; ++r) {
    const Integers<Real> chosen = (Magnitude<Real>(column[r]) == greatest) & is_open;
    is_open &= ~chosen;
    place = chosen ? Row<Real>(r) : place;
    pivot = chosen ? column[r] : pivot;
    pivot_column = chosen ? many.columns[r] : pivot_column;
    column[r] = chosen ? top : column[r];
    many.columns[r] = chosen ? top_column : many.columns[r];
  }
  step.place = place;
  many.columns[k] = pivot_column;
  many.zero_pivot = ((pivot == 0) & (many.zero_pivot < 0)) ? Row<Real>(k) : many.zero_pivot;
  column[k] = Vector<Real>{} + 1;
  for (std::size_t r = 0; r < n; ++r) step.factors[r] = column[r] = column[r] / pivot;
}

/// Does the steps [kFirst, kLast) in another column, which stays in registers meanwhile.
template <std::size_t kFirst, std::size_t kLast, class Real, std::size_t n>
[[gnu::noinline]] void TakeStepsIn(Vector<Real>* column, const Step<Real, n>* steps) {
  Vector<Real> rows[n];
  ForEach<0, n>([&]<std::size_t r>() { rows[r] = column[r]; });
  ForEach<kFirst, kLast>([&]<std::size_t k>() __attribute__((always_inline)) {
    const Step<Real, n>& step = steps[k - kFirst];
    const Integers<Real> place = step.place;
    const Vector<Real> top = rows[k];
    Vector<Real> taken = top;
    ForEach<k + 1, n>([&]<std::size_t r>() {
      const auto chosen = place == Row<Real>(r);
      taken = chosen ? rows[r] : taken;
      rows[r] = chosen ? top : rows[r];
    });
    rows[k] = Vector<Real>{};
    ForEach<0, n>([&]<std::size_t r>() {
      rows[r] = IsFused(n) ? MinusProduct<Real>(rows[r], taken, step.factors[r])
                           : rows[r] - taken * step.factors[r];
    });
  });
  ForEach<0, n>([&]<std::size_t r>() { column[r] = rows[r]; });
}

/// Gauss-Jordan elimination in place. The inverse's columns stay in the order of the pivots.
/// Calls `meanwhile` with the number of each step.
template <class Real, std::size_t n, class Function>
void InvertMany(ManyMatrices<Real, n>& many, const Function& meanwhile) {
  using Integer = typename Simd<Real>::Integer;
  many.zero_pivot = Integers<Real>{} - 1;
  for (std::size_t k = 0; k < n; ++k) many.columns[k] = Integers<Real>{} + static_cast<Integer>(k);
  const auto column = [&](std::size_t c) { return many.elements + c * n; };
  ForEach<0, (n + kSteps - 1) / kSteps>([&]<std::size_t block>() {
    constexpr std::size_t kFirst = block * kSteps;
    constexpr std::size_t kLast = kFirst + kSteps < n ? kFirst + kSteps : n;
    Step<Real, n> steps[kSteps];
    ForEach<kFirst, kLast>([&]<std::size_t k>() {
      Step<Real, n>& step = steps[k - kFirst];
      TakeStep(many, k, step);
      for (std::size_t c = kFirst; c < kLast; ++c) {
        if (c != k) TakeStepsIn<k, k + 1>(column(c), &step);
      }
      meanwhile(k);
    });
    for (std::size_t c = 0; c < n; ++c) {
      if (c < kFirst || c >= kLast) TakeStepsIn<kFirst, kLast>(column(c), steps);
    }
  });
}

template <class T, std::size_t n>
SingularMatrix InvertGroup(const T* matrices, T* inverses, std::size_t count, bool are_far,
                           void* scratch) {
  auto& many = *static_cast<ManyMatrices<Computed<T>, n>*>(scratch);
  if (are_far) {
    // LoadMany jumps from matrix to matrix; memory outside the cache is faster if read in order.
    alignas(Vector<Computed<T>>) T near[kLanes<Computed<T>> * n * n];
    __builtin_memcpy(near, matrices, count * n * n * sizeof(T));
    LoadMany<T, n>(near, count, many);
  } else {
    LoadMany<T, n>(matrices, count, many);
  }
  InvertMany<Computed<T>, n>(many, [&](std::size_t k) {
    const std::size_t end = count * n * n * (k + 1) / n;
    for (std::size_t i = count * n * n * k / n; i < end; i += 64 / sizeof(T)) {
      __builtin_prefetch(matrices + count * n * n + i, 0, 2);
    }
  });
  for (std::size_t lane = 0; lane < count; ++lane) {
    if (many.zero_pivot[lane] >= 0) {
      return {static_cast<std::int64_t>(lane), static_cast<std::int64_t>(many.zero_pivot[lane])};
    }
  }
  StoreMany<T, n>(many, count, inverses);
  return {};
}

/// For larger matrices, inverting one after the other is as fast.
template <class Real>
constexpr std::size_t kLargestOfMany = kLanes<Real> < 8 ? 2 * kLanes<Real> : 16;

/// InvertGroup for n×n matrices, n from 1 to kLargestOfMany<Computed<T>>. It takes the number of
/// matrices, whether they exceed the processor's own cache, and scratch memory aligned for vectors.
template <class T>
using GroupFunction = SingularMatrix (*)(const T*, T*, std::size_t, bool, void*);

template <class T>
GroupFunction<T> GroupFunctionFor(std::size_t n) {
  return [n]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr GroupFunction<T> kFunctions[] = {InvertGroup<T, I + 1>...};
    return kFunctions[n - 1];
  }(std::make_index_sequence<kLargestOfMany<Computed<T>>>());
}

}  // namespace
}  // namespace opgraft::contrib
