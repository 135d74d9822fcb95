// __half on the CPU; see cuda_runtime.h beside this.
#pragma once

#include <opgraft/element.h>

struct [[gnu::visibility("hidden")]] __half {
  opgraft::Float16 value;
};
inline float __half2float(__half x) { return x.value; }
inline __half __float2half_rn(float x) { return {opgraft::Float16(x)}; }
