// Chooses the compilation of the inversion that fits the CPU, and words its error.
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
  return Functions<T>(set).invert(matrices, inverses, n, first, last, scratch);
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
