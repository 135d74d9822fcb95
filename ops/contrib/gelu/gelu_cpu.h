// Gelu, x times the standard normal distribution function of x, with the processor's vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/contrib/instruction_set.h"

namespace opgraft::contrib {

// Computes y[i] = 0.5 x[i] (1 + erf(x[i] / sqrt 2)) for count elements, in one thread. x and y need
// no alignment; they must be the same memory or not overlap. A NaN gives a NaN, minus infinity
// gives -0. The instruction set may be any that the processor has; it affects the last bits at
// most.

void Gelu(const float* x, float* y, std::size_t count,
          InstructionSet instructions = BestInstructionSet());

void Gelu(const double* x, double* y, std::size_t count);

/// Takes the bits of float16; computes in float and rounds once at the end.
void GeluFloat16(const std::uint16_t* x, std::uint16_t* y, std::size_t count,
                 InstructionSet instructions = BestInstructionSet());

/// Takes the bits of bfloat16; computes in float and rounds once at the end.
void GeluBFloat16(const std::uint16_t* x, std::uint16_t* y, std::size_t count,
                  InstructionSet instructions = BestInstructionSet());

}  // namespace opgraft::contrib
