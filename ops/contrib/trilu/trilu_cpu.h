// Trilu: copies the upper or lower triangle of matrices by whole runs of bytes; zeros elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace opgraft::contrib {

/// Matrices of one shape, stored one after another in row-major order.
struct TriluShape {
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t columns;
};

namespace trilu_internal {

/// One matrix in bytes. Each row consists of a left and a right part, one of which is kept: the
/// left part begins at row `first`, grows by one element per row, and is the whole row from row
/// `last` on.
struct Matrix {
  std::size_t element_size;
  std::size_t row_bytes;
  std::size_t rows;
  std::size_t first;
  std::size_t last;
  /// The number of bytes of the left part in row `first`.
  std::size_t first_left;
  bool keeps_right;
};

inline void Copy(const unsigned char* from, unsigned char* to, std::size_t bytes) {
  if (from != to) std::memcpy(to, from, bytes);
}

inline void Compute(const Matrix& matrix, const unsigned char* from, unsigned char* to) {
  const std::size_t upper_bytes = matrix.first * matrix.row_bytes;
  const std::size_t lower_start = matrix.last * matrix.row_bytes;
  const std::size_t lower_bytes = (matrix.rows - matrix.last) * matrix.row_bytes;
  std::size_t left = matrix.first_left;
  if (matrix.keeps_right) {
    Copy(from, to, upper_bytes);
    for (std::size_t at = upper_bytes; at < lower_start; at += matrix.row_bytes) {
      std::memset(to + at, 0, left);
      Copy(from + at + left, to + at + left, matrix.row_bytes - left);
      left += matrix.element_size;
    }
    std::memset(to + lower_start, 0, lower_bytes);
  } else {
    std::memset(to, 0, upper_bytes);
    for (std::size_t at = upper_bytes; at < lower_start; at += matrix.row_bytes) {
      Copy(from + at, to + at, left);
      std::memset(to + at + left, 0, matrix.row_bytes - left);
      left += matrix.element_size;
    }
    Copy(from + lower_start, to + lower_start, lower_bytes);
  }
}

/// Computes to = from & mask. Uses vectors explicitly, because compilers do not vectorise the loop
/// if `to` may be `from`.
inline void And(const unsigned char* from, const unsigned char* mask, unsigned char* to,
                std::size_t bytes) {
  using Vector = std::uint64_t __attribute__((vector_size(16)));
  std::size_t i = 0;
  for (; i + sizeof(Vector) <= bytes; i += sizeof(Vector)) {
    Vector value;
    Vector kept;
    std::memcpy(&value, from + i, sizeof(value));
    std::memcpy(&kept, mask + i, sizeof(kept));
    value &= kept;
    std::memcpy(to + i, &value, sizeof(value));
  }
  for (; i < bytes; ++i) to[i] = from[i] & mask[i];
}

}  // namespace trilu_internal

/// Keeps the elements on and above the k-th diagonal of each matrix, or on and below it, and sets
/// all others to zero bytes. k counts upwards from the main diagonal and may be any number. Only
/// the size of an element matters. No dimension may be negative. x and y must be the same memory or
/// not overlap, and may be null if a dimension is zero.
template <std::size_t kElementSize>
void Trilu(const void* x, void* y, const TriluShape& shape, std::int64_t k, bool upper) {
  static_assert(kElementSize == 1 || kElementSize == 2 || kElementSize == 4 || kElementSize == 8);
  if (shape.batch == 0 || shape.rows == 0 || shape.columns == 0) return;
  // The left part of row r has r + shift elements, but at most the whole row. A diagonal beyond
  // these limits gives the same result as one at the limit, and with the limits no sum overflows.
  const std::int64_t shift = std::clamp(k, -shape.rows, shape.columns) + (upper ? 0 : 1);
  const std::int64_t first = std::clamp<std::int64_t>(-shift, 0, shape.rows);
  const std::int64_t last = std::clamp<std::int64_t>(shape.columns - shift, first, shape.rows);
  const trilu_internal::Matrix matrix = {
      .element_size = kElementSize,
      .row_bytes = static_cast<std::size_t>(shape.columns) * kElementSize,
      .rows = static_cast<std::size_t>(shape.rows),
      .first = static_cast<std::size_t>(first),
      .last = static_cast<std::size_t>(last),
      .first_left = static_cast<std::size_t>(std::max<std::int64_t>(shift, 0)) * kElementSize,
      .keeps_right = upper};
  const auto* from = static_cast<const unsigned char*>(x);
  auto* to = static_cast<unsigned char*>(y);
  const std::size_t matrix_bytes = matrix.rows * matrix.row_bytes;
  auto batch = static_cast<std::size_t>(shape.batch);

  // In small matrices, runs are too short for one call each. As many matrices as fit are computed
  // at once, by a mask.
  alignas(16) unsigned char mask[4096];
  if (const std::size_t together = sizeof(mask) / matrix_bytes; batch > 1 && together > 0) {
    const std::size_t masked = std::min(together, batch);
    std::memset(mask, 0xff, masked * matrix_bytes);
    for (std::size_t i = 0; i < masked; ++i) {
      trilu_internal::Compute(matrix, mask + i * matrix_bytes, mask + i * matrix_bytes);
    }
    while (batch > 0) {
      const std::size_t count = std::min(masked, batch);
      trilu_internal::And(from, mask, to, count * matrix_bytes);
      from += count * matrix_bytes;
      to += count * matrix_bytes;
      batch -= count;
    }
    return;
  }
  for (; batch > 0; --batch, from += matrix_bytes, to += matrix_bytes) {
    trilu_internal::Compute(matrix, from, to);
  }
}

}  // namespace opgraft::contrib
