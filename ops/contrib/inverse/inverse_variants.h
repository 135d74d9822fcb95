// The table of functions that the inversion exports for each instruction set.
#pragma once

#include "ops/contrib/inverse/inverse_cpu.h"

namespace opgraft::contrib {

template <class T>
struct InverseFunctions {
  std::size_t (*scratch_bytes)(std::size_t n);
  SingularMatrix (*invert)(const T* matrices, T* inverses, std::size_t n, std::size_t first,
                           std::size_t last, void* scratch);
};

struct InverseVariant {
  InverseFunctions<float> of_float;
  InverseFunctions<double> of_double;
  InverseFunctions<std::uint16_t> of_half;
};

extern const InverseVariant kInverseBaseline;
extern const InverseVariant kInverseAvx2;
extern const InverseVariant kInverseAvx512;

}  // namespace opgraft::contrib
