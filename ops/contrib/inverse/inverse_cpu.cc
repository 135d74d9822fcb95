// Chooses the variant of the inversion for the CPU, and makes its error message.
#include "ops/contrib/inverse/inverse_cpu.h"

#include <type_traits>

#include "ops/contrib/inverse/inverse_variants.h"

namespace opgraft::contrib {
namespace {

const InverseVariant& Variant([[maybe_unused]] InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::kAvx512) return kInverseAvx512;
  if (set == InstructionSet::kAvx2) return kInverseAvx2;
#endif
  return kInverseBaseline;
}

template <class T>
const InverseFunctions<T>& Functions(InstructionSet set) {
  if constexpr (std::is_same_v<T, float>) {
    return Variant(set).of_float;
  } else if constexpr (std::is_same_v<T, double>) {
    return Variant(set).of_double;
  } else {
    return Variant(set).of_half;
  }
}

/// Returns the first of the matrices [first, last) from which on vectors of half the width are
/// faster, because the remaining matrices would fill at most half of the widest vectors.
template <class T>
std::size_t FirstForHalfVectors(std::size_t n, std::size_t first, std::size_t last,
                                InstructionSet set) {
  constexpr std::size_t kGroup = 16;  // floats in the widest vector; halves are computed as floats
  if (std::is_same_v<T, double> || set != InstructionSet::kAvx512) return last;
  if (n <= kGroup / 2 || n > kGroup) return last;
  const std::size_t left = (last - first) % kGroup;
  return left <= kGroup / 2 ? last - left : last;
}

}  // namespace

std::string SingularMatrixText(const SingularMatrix& singular, bool batched) {
  std::string text = "linalg.inv: ";
  if (batched) text += "(Batch element " + std::to_string(singular.matrix) + "): ";
  return text + "The diagonal element " + std::to_string(singular.diagonal + 1) +
         " is zero, the inversion could not be completed because the input matrix is singular.";
}

template <class T>
std::size_t InvertScratchBytes(std::size_t n, InstructionSet set) {
  return Functions<T>(set).scratch_bytes(n);
}

template <class T>
SingularMatrix Invert(const T* matrices, T* inverses, std::size_t n, std::size_t first,
                      std::size_t last, void* scratch, InstructionSet set) {
  if (n == 0) return {};
  const std::size_t middle = FirstForHalfVectors<T>(n, first, last, set);
  const SingularMatrix found =
      Functions<T>(set).invert(matrices, inverses, n, first, middle, scratch);
  if (found || middle == last) return found;
  return Functions<T>(InstructionSet::kAvx2).invert(matrices, inverses, n, middle, last, scratch);
}

#define OPGRAFT_INSTANTIATE(T)                                                                  \
  template std::size_t InvertScratchBytes<T>(std::size_t, InstructionSet);                      \
  template SingularMatrix Invert<T>(const T*, T*, std::size_t, std::size_t, std::size_t, void*, \
                                    InstructionSet);
OPGRAFT_INSTANTIATE(float)
OPGRAFT_INSTANTIATE(double)
OPGRAFT_INSTANTIATE(std::uint16_t)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
