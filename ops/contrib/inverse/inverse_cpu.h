// Inverts batches of square matrices on the CPU: pure computation, no allocation, no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/contrib/instruction_set.h"

namespace opgraft::contrib {

/// The first singular matrix of a batch, if there is one.
struct SingularMatrix {
  /// Its index in the batch; -1 if all matrices have been inverted.
  std::int64_t matrix = -1;
  /// The first zero on the diagonal of its factor U, counted from 0.
  std::int64_t diagonal = -1;

  explicit operator bool() const { return matrix >= 0; }
};

/// Returns the message of torch.linalg.inv for it; `batched` if the tensor has more than two
/// dimensions.
std::string SingularMatrixText(const SingularMatrix& singular, bool batched);

/// Returns how many bytes of scratch memory, of any alignment, one call of Invert needs for n×n
/// matrices. T is as for Invert.
template <class T>
std::size_t InvertScratchBytes(std::size_t n, InstructionSet set = BestInstructionSet());

/// Inverts the matrices [first, last) of a batch of row-major n×n matrices, like LAPACK by
/// elimination with partial pivoting of rows. T is float, double or std::uint16_t, the bits of a
/// float16, which is computed as float. `inverses` may be `matrices`, but must not overlap it
/// otherwise. The result for a matrix does not depend on the range it is in.
///
/// Returns the first matrix of the range that is singular; `inverses` is then unspecified for the
/// range. NaN and infinity are allowed and take part in the computation.
template <class T>
SingularMatrix Invert(const T* matrices, T* inverses, std::size_t n, std::size_t first,
                      std::size_t last, void* scratch, InstructionSet set = BestInstructionSet());

}  // namespace opgraft::contrib
