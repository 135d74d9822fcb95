// Which of the instruction sets that kernels are compiled for this processor has.
#pragma once

namespace opgraft::contrib {

/// Each holds the ones before it. kBaseline is what every processor of the architecture has.
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

/// The widest that this processor and its operating system have; kAvx2 has FMA too, kAvx512 is
/// the F, BW, DQ and VL of servers.
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
