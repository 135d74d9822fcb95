// __nv_bfloat16 on the CPU; see cuda_runtime.h beside this.
#pragma once

#include <opgraft/element.h>

struct [[gnu::visibility("hidden")]] __nv_bfloat16 {
  opgraft::BFloat16 value;
};
inline float __bfloat162float(__nv_bfloat16 x) { return x.value; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {opgraft::BFloat16(x)}; }
