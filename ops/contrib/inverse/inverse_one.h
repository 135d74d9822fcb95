// Inverts one matrix: blocked Gauss-Jordan elimination with partial pivoting.
#pragma once

#include "ops/contrib/inverse/half.h"

namespace opgraft::contrib {
namespace {

/// The number of columns that are eliminated before the others are updated by a product.
constexpr std::size_t kBlock = 32;
/// The columns, and the vectors of each column, that the product keeps in registers.
constexpr std::size_t kTileColumns = kVectorBytes == 64 ? 8 : 4;
constexpr std::size_t kTileVectors = 2;

/// A matrix in scratch memory, stored by columns as in LAPACK, and the arithmetic on it. Columns
/// are padded to whole tiles; the contents of the padding have no effect.
template <class Real>
class OneMatrix {
 public:
  static constexpr std::size_t kCount = kLanes<Real>;

  OneMatrix(std::size_t n, void* scratch)
      : n_(n),
        stride_(Stride(n)),
        elements_(static_cast<Real*>(scratch)),
        factors_(elements_ + Columns(n) * stride_),
        pivots_(reinterpret_cast<std::size_t*>(factors_ + FactorColumns(n) * stride_)),
        places_(pivots_ + n) {}

  static std::size_t ScratchBytes(std::size_t n) {
    return (Columns(n) + FactorColumns(n)) * Stride(n) * sizeof(Real) + 2 * n * sizeof(std::size_t);
  }

  template <class T>
  void LoadFrom(const T* matrix) {
    const std::size_t padding = n_ / kCount * kCount;
    for (std::size_t c = 0; c < Columns(n_); ++c) {
      for (std::size_t r = c < n_ ? padding : 0; r < Rows(n_); r += kCount) {
        Store(Vector<Real>{}, Column(c) + r);
      }
    }
    if (n_ < kCount) {
      for (std::size_t c = 0; c < n_; ++c) {
        T column[kCount] = {};
        for (std::size_t r = 0; r < n_; ++r) column[r] = matrix[r * n_ + c];
        Store(LoadAs(column), Column(c));
      }
      return;
    }
    ForEachSquare([&](std::size_t r, std::size_t c) {
      Vector<Real> square[kCount];
      for (std::size_t i = 0; i < kCount; ++i) square[i] = LoadAs(matrix + (r + i) * n_ + c);
      Transpose<Real>(square);
      for (std::size_t i = 0; i < kCount; ++i) Store(square[i], Column(c + i) + r);
    });
  }

  template <class T>
  void StoreTo(T* matrix) const {
    if (n_ < kCount) {
      for (std::size_t c = 0; c < n_; ++c) {
        T column[kCount];
        StoreAs(Load(Column(places_[c])), column);
        for (std::size_t r = 0; r < n_; ++r) matrix[r * n_ + c] = column[r];
      }
      return;
    }
    ForEachSquare([&](std::size_t r, std::size_t c) {
      Vector<Real> square[kCount];
      for (std::size_t i = 0; i < kCount; ++i) square[i] = Load(Column(places_[c + i]) + r);
      Transpose<Real>(square);
      for (std::size_t i = 0; i < kCount; ++i) StoreAs(square[i], matrix + (r + i) * n_ + c);
    });
  }

  /// Returns the index of the first zero pivot, or -1.
  std::int64_t Invert() {
    for (std::size_t first = 0; first < n_; first += kBlock) {
      const std::size_t last = first + kBlock < n_ ? first + kBlock : n_;
      for (std::size_t k = first; k < last; ++k) {
        pivots_[k] = GreatestFrom(k);
        if (Column(k)[pivots_[k]] == 0) return static_cast<std::int64_t>(k);
        Eliminate(k, first, last);
      }
      if (n_ <= kBlock) break;
      SplitFactors(first, last);
      for (std::size_t c = 0; c < first; c += kTileColumns) UpdateTile(c, first, last);
      for (std::size_t c = last; c < n_; c += kTileColumns) UpdateTile(c, first, last);
    }
    for (std::size_t c = 0; c < n_; ++c) places_[c] = c;
    for (std::size_t k = n_; k-- > 0;) {
      const std::size_t place = places_[k];
      places_[k] = places_[pivots_[k]];
      places_[pivots_[k]] = place;
    }
    return -1;
  }

 private:
  static std::size_t Rows(std::size_t n) {
    return RoundUp(n, n > kBlock ? kBlock : kTileVectors * kCount);
  }
  static std::size_t Columns(std::size_t n) { return RoundUp(n, kTileColumns); }
  static std::size_t FactorColumns(std::size_t n) { return n > kBlock ? kBlock : 0; }
  static std::size_t Stride(std::size_t n) {
    // An odd number of cache lines, so that the columns do not fall into few sets of the cache.
    constexpr std::size_t kLine = 64 / sizeof(Real);
    return (RoundUp(Rows(n), kLine) / kLine | 1) * kLine;
  }

  Real* Column(std::size_t c) const { return elements_ + c * stride_; }
  Real* Factors(std::size_t step) const { return factors_ + step * stride_; }

  /// Calls `function` with the corners of squares of vectors that cover the matrix; the last
  /// overlap.
  template <class Function>
  void ForEachSquare(const Function& function) const {
    for (std::size_t r = 0; r < n_; r += kCount) {
      for (std::size_t c = 0; c < n_; c += kCount) {
        function(r + kCount <= n_ ? r : n_ - kCount, c + kCount <= n_ ? c : n_ - kCount);
      }
    }
  }

  /// Returns the row, from k on, of the greatest magnitude in column k; the first of equals.
  std::size_t GreatestFrom(std::size_t k) const {
    using Integer = typename Simd<Real>::Integer;
    const auto from = static_cast<Integer>(k), to = static_cast<Integer>(n_);
    const Integers<Real> lanes = LaneNumbers<Real>();
    Integers<Real> greatest = Integers<Real>{} - 1;
    Integers<Real> place = Integers<Real>{};
    for (std::size_t r = k / kCount * kCount; r < n_; r += kCount) {
      const Integers<Real> rows = lanes + static_cast<Integer>(r);
      const Integers<Real> counts = (rows >= from) & (rows < to);
      const Integers<Real> magnitude = Magnitude<Real>(Load(Column(k) + r)) | ~counts;
      const Integers<Real> greater = magnitude > greatest;
      greatest = greater ? magnitude : greatest;
      place = greater ? rows : place;
    }
    constexpr std::make_index_sequence<kCount> kAll;
    const auto reduce = [&]<std::size_t kBy>() {
      if constexpr (kBy < kCount) {
        const Integers<Real> other = Rotate<kBy>(greatest, kAll);
        const Integers<Real> other_place = Rotate<kBy>(place, kAll);
        const Integers<Real> better =
            (other > greatest) | ((other == greatest) & (other_place < place));
        greatest = better ? other : greatest;
        place = better ? other_place : place;
      }
    };
    reduce.template operator()<8>();
    reduce.template operator()<4>();
    reduce.template operator()<2>();
    reduce.template operator()<1>();
    return static_cast<std::size_t>(place[0]);
  }

  /// Does step k of the elimination in the columns [first, last), which include k.
  void Eliminate(std::size_t k, std::size_t first, std::size_t last) {
    using Integer = typename Simd<Real>::Integer;
    const std::size_t pivot_row = pivots_[k];
    Real tops[kBlock];   // the elements of each column in row k and in the pivot row,
    Real taken[kBlock];  // which are swapped
    for (std::size_t c = first; c < last; ++c) {
      tops[c - first] = Column(c)[k];
      taken[c - first] = Column(c)[pivot_row];
    }
    for (std::size_t step = 0; n_ > kBlock && step < k - first; ++step) {
      const Real factor = Factors(step)[k];
      Factors(step)[k] = Factors(step)[pivot_row];
      Factors(step)[pivot_row] = factor;
    }
    const Real top = tops[k - first];
    const Real pivot = taken[k - first];
    // Stores whole vectors only: loading a vector would wait for smaller stores to reach the cache.
    for (std::size_t r = 0; r < n_; r += kTileVectors * kCount) {
      Integers<Real> in_pivot_row[kTileVectors];
      Integers<Real> in_row_k[kTileVectors];
      Vector<Real> factors[kTileVectors];
      for (std::size_t v = 0; v < kTileVectors; ++v) {
        const Integers<Real> rows = LaneNumbers<Real>() + static_cast<Integer>(r + v * kCount);
        in_pivot_row[v] = rows == static_cast<Integer>(pivot_row);
        in_row_k[v] = rows == static_cast<Integer>(k);
        Real* const at = Column(k) + r + v * kCount;
        factors[v] = in_pivot_row[v] ? Vector<Real>{} + top : Load(at);
        factors[v] = (in_row_k[v] ? Vector<Real>{} + 1 : factors[v]) / pivot;
        Store(factors[v], at);
        if (n_ > kBlock) Store(factors[v], Factors(k - first) + r + v * kCount);
      }
      for (std::size_t c = first; c < last; ++c) {
        if (c == k) continue;
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          Real* const at = Column(c) + r + v * kCount;
          Vector<Real> rest = in_pivot_row[v] ? Vector<Real>{} + tops[c - first] : Load(at);
          rest = in_row_k[v] ? Vector<Real>{} : rest;
          Store(IsFused(n_)
                    ? MinusProduct<Real>(rest, Vector<Real>{} + taken[c - first], factors[v])
                    : rest - taken[c - first] * factors[v],
                at);
        }
      }
    }
  }

  /// For the steps [first, last), moves the factors for the rows of later steps of the block from
  /// `factors_` to `inner_`.
  void SplitFactors(std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) {
      for (std::size_t r = first; r < first + kBlock; ++r) {
        Real& factor = Factors(k - first)[r];
        const bool is_inner = r > k && r < last;
        inner_[k - first][r - first] = is_inner ? factor : 0;
        if (is_inner) factor = 0;
      }
    }
  }

  /// Does the steps [first, last) of the elimination at once, in kTileColumns other columns from c
  /// on.
  void UpdateTile(std::size_t c, std::size_t first, std::size_t last) {
    Real taken[kBlock][kTileColumns];
    for (std::size_t i = 0; i < kTileColumns; ++i) {
      Real* const column = Column(c + i);
      for (std::size_t k = first; k < last; ++k) {
        const Real top = column[k];
        column[k] = column[pivots_[k]];
        column[pivots_[k]] = top;
      }
    }
    // The pivot row of each step, after the steps before it. Multiplying by the inverse of the
    // block instead would be simpler, but unstable if the block is badly conditioned.
    for (std::size_t k = first; k < last; ++k) {
      for (std::size_t i = 0; i < kTileColumns; ++i) {
        Real* const column = Column(c + i);
        taken[k - first][i] = column[k];
        for (std::size_t r = 0; r < kBlock; r += kCount) {
          const Vector<Real> factors = Load(inner_[k - first] + r);
          Real* const at = column + first + r;
          Store(MinusProduct<Real>(Load(at), Vector<Real>{} + taken[k - first][i], factors), at);
        }
      }
    }
    for (std::size_t i = 0; i < kTileColumns; ++i) {
      for (std::size_t k = first; k < last; ++k) Column(c + i)[k] = 0;
    }
    for (std::size_t r = 0; r < n_; r += kTileVectors * kCount) {
      Vector<Real> sums[kTileColumns][kTileVectors];
      for (std::size_t i = 0; i < kTileColumns; ++i) {
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          sums[i][v] = Load(Column(c + i) + r + v * kCount);
        }
      }
      for (std::size_t k = first; k < last; ++k) {
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          const Vector<Real> factors = Load(Factors(k - first) + r + v * kCount);
          for (std::size_t i = 0; i < kTileColumns; ++i) {
            sums[i][v] =
                MinusProduct<Real>(sums[i][v], Vector<Real>{} + taken[k - first][i], factors);
          }
        }
      }
      for (std::size_t i = 0; i < kTileColumns; ++i) {
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          Store(sums[i][v], Column(c + i) + r + v * kCount);
        }
      }
    }
  }

  std::size_t n_;
  std::size_t stride_;
  Real* elements_;
  /// For each step of a block, the factors at the time of the step, but with rows in the final
  /// order.
  Real* factors_;
  Real inner_[kBlock][kBlock];
  std::size_t* pivots_;
  /// For each column of the inverse, the column in which it is stored.
  std::size_t* places_;
};

}  // namespace
}  // namespace opgraft::contrib
