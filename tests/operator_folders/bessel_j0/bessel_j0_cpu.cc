// Leaves the arithmetic to the C library.
#include "ops/contrib/bessel_j0/bessel_j0_cpu.h"

#include <math.h>

namespace opgraft::contrib {

void BesselJ0(const float* x, float* y, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) y[i] = scale * static_cast<float>(j0(x[i]));
}

void BesselJ0(const double* x, double* y, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) y[i] = scale * j0(x[i]);
}

}  // namespace opgraft::contrib
