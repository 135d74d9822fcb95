// The shape rule for operators on batches of matrices.
#pragma once

#include <opgraft/op.h>

#include <string>
#include <utility>

namespace opgraft::contrib {

/// Gives output 0 the shape of input 0, which must hold matrices (square ones if `must_be_square`).
inline void SameMatrices(ShapeContext& context, bool must_be_square) {
  std::optional<Shape> shape = context.Input(0);
  if (!shape) return;
  const std::size_t rank = shape->size();
  if (rank < 2) {
    throw ShapeError("X has the rank " + std::to_string(rank) +
                     ", expected matrices: a rank of 2 or more");
  }
  Dim& rows = (*shape)[rank - 2];
  Dim& columns = (*shape)[rank - 1];
  if (must_be_square && Equal(rows, columns) == false) {
    throw ShapeError("X holds matrices of " + std::to_string(rows.size()) + " rows and " +
                     std::to_string(columns.size()) + " columns, expected square ones");
  }
  if (must_be_square && rows.IsKnown()) columns = rows;
  if (must_be_square && columns.IsKnown()) rows = columns;
  context.SetOutput(0, std::move(*shape));
}

/// Returns the number of matrices in a tensor of rank 2 or more.
inline std::size_t CountMatrices(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

}  // namespace opgraft::contrib
