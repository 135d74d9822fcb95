// The Bessel function of order 0 on the CPU.
#pragma once

#include <cstddef>

namespace opgraft::contrib {

void BesselJ0(const float* x, float* y, std::size_t count, float scale);
void BesselJ0(const double* x, double* y, std::size_t count, float scale);

}  // namespace opgraft::contrib
