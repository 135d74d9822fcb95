// Checks for LAPACK, which trusts the factors that it is given, and does not always terminate with
// NaNs.
#include <algorithm>
#include <cmath>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

/// Pivots are the rows that were swapped, counted from 1, so that they must be rows of the matrix.
std::string CheckSwaps(const std::optional<TensorArgument>& matrix,
                       const std::optional<TensorArgument>& pivots) {
  if (!matrix || !pivots) return "";
  const std::int64_t rows = matrix->SizeFromEnd(2);
  const std::int64_t expected = std::min(rows, matrix->SizeFromEnd(1));
  if (pivots->SizeFromEnd(1) == expected && LieWithin(*pivots, 1, rows)) return "";
  return "expected " + std::to_string(expected) + " pivots from 1 to " + std::to_string(rows) +
         " for each matrix, got " + pivots->Text();
}

/// Whether there is one row of pivots for each matrix.
bool IsRowForEach(const TensorArgument& matrix, const TensorArgument& pivots) {
  return matrix.shape.size() >= 2 && pivots.shape.size() + 1 == matrix.shape.size() &&
         std::equal(pivots.shape.begin(), pivots.shape.end() - 1, matrix.shape.begin());
}

}  // namespace

std::string CheckFactorsOfUnpack(const NamedArguments& arguments) {
  const std::optional<TensorArgument> matrix = arguments.FindTensor("LU_data");
  const std::optional<TensorArgument> pivots = arguments.FindTensor("LU_pivots");
  if (matrix && pivots && !IsRowForEach(*matrix, *pivots)) {
    return "expected one row of pivots for each matrix";
  }
  return CheckSwaps(matrix, pivots);
}

std::string CheckFactorsOfOldSolve(const NamedArguments& arguments) {
  return CheckSwaps(arguments.FindTensor("LU_data"), arguments.FindTensor("LU_pivots"));
}

std::string CheckFactorsOfSolve(const NamedArguments& arguments) {
  return CheckSwaps(arguments.FindTensor("LU"), arguments.FindTensor("pivots"));
}

/// LAPACK's pivots of LDL: k > 0 for a swap, the same -k twice for a block of two rows.
std::string CheckBlocks(const NamedArguments& arguments) {
  const std::optional<TensorArgument> pivots = arguments.FindTensor("pivots");
  const std::optional<TensorArgument> matrix = arguments.FindTensor("LD");
  if (!pivots || !matrix || pivots->element_type != 6) return "";
  const std::int64_t rows = matrix->SizeFromEnd(1);
  bool is_good = IsRowForEach(*matrix, *pivots) && pivots->SizeFromEnd(1) == rows &&
                 LieWithin(*pivots, -rows, rows);
  const std::size_t count = Count(pivots->shape);
  for (std::size_t i = 0; is_good && i < count; ++i) {
    const std::int64_t pivot = ReadInteger(*pivots, i).value_or(0);
    if (pivot > 0) continue;
    const bool is_last = static_cast<std::int64_t>(i + 1) % rows == 0;
    is_good = pivot < 0 && !is_last && ReadInteger(*pivots, i + 1) == pivot;
    ++i;
  }
  if (is_good) return "";
  return "expected " + std::to_string(rows) +
         " pivots for each matrix, as linalg_ldl_factor returns them";
}

std::string CheckFinite(const NamedArguments& arguments) {
  const std::optional<TensorArgument> matrix = arguments.FindTensor("self");
  if (!matrix) return "";
  const std::size_t count = Count(matrix->shape) * (matrix->is_complex ? 2 : 1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<double> number = ReadReal(*matrix, i);
    if (number && !std::isfinite(*number)) {
      return "expected a matrix of finite numbers, got " + NumberText(*number) + " in it";
    }
  }
  return "";
}

std::string CheckPoints(const NamedArguments& arguments) {
  const std::optional<TensorArgument> points = arguments.FindTensor("self");
  const std::optional<double> power = arguments.FindReal("p");
  if (points && points->rank() != 2) {
    return "expected points as the rows of a tensor of 2 dimensions, got " + points->Text();
  }
  if (power && !(*power >= 0)) return "expected p of 0 or more, got " + NumberText(*power);
  return "";
}

}  // namespace opgraft::aten
