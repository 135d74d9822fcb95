// Finds the best instruction set of this processor that kernels are compiled for.
#pragma once

namespace opgraft::contrib {

/// Each set includes the ones before it. Every processor of the architecture has kBaseline.
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

/// Returns the widest set that this processor and its operating system support. kAvx2 includes FMA;
/// kAvx512 is AVX-512 F, BW, DQ and VL, which servers have.
inline InstructionSet BestInstructionSet() {
#if defined(__x86_64__)
  __builtin_cpu_init();  // for callers that run before the constructors of libraries
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) {
    return InstructionSet::kBaseline;
  }
  const bool avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return avx512 ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
#else
  return InstructionSet::kBaseline;
#endif
}

}  // namespace opgraft::contrib
