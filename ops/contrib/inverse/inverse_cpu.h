// Inverses of batches of square matrices on the CPU: pure computation, no allocation, no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/contrib/instruction_set.h"

namespace opgraft::contrib {

/// A matrix that has no inverse, or that there is none.
struct SingularMatrix {
  /// Its place in the batch; -1: all have been inverted.
  std::int64_t matrix = -1;
  /// The first zero on the diagonal of its factor U, counted from 0.
  std::int64_t diagonal = -1;

  explicit operator bool() const { return matrix >= 0; }
};

/// What torch.linalg.inv says of it; `batched` is whether the tensor has more than two dimensions.
std::string SingularMatrixText(const SingularMatrix& singular, bool batched);

/// How many bytes of scratch memory, aligned in any way, one call of Invert needs for n×n matrices.
/// T is as for Invert.
template <class T>
std::size_t InvertScratchBytes(std::size_t n, InstructionSet set = BestInstructionSet());

/// Inverts the matrices [first, last) of a batch of row-major n×n matrices, as LAPACK does: by
/// elimination with partial pivoting of rows. T is float, double or std::uint16_t, the bits of a
/// float16, which is computed with as a float. `inverses` may be `matrices`, but may not overlap it
/// in another way. The result for a matrix does not depend on the range it is in.
///
/// Returns the first of the range that is singular; what `inverses` then holds of the range is not
/// specified. NaN and infinity take part in the computation, and are no error.
template <class T>
SingularMatrix Invert(const T* matrices, T* inverses, std::size_t n, std::size_t first,
                      std::size_t last, void* scratch, InstructionSet set = BestInstructionSet());

}  // namespace opgraft::contrib
