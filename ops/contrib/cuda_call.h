// Adapts the SDK to the CUDA kernels of our operators.
#pragma once

#include <opgraft/op.h>

#include "ops/contrib/cuda.h"

namespace opgraft::contrib {

inline Status ToStatus(CudaError error) {
  return error == nullptr ? Status() : Status::Error(std::string("CUDA reports: ") + error);
}

/// Returns a scratch that uses the call's memory on the GPU.
inline DeviceScratch ScratchOf(Context& context) {
  return {[](void* self, std::size_t bytes) -> void* {
            try {
              return static_cast<Context*>(self)->Scratch<std::byte>(bytes).data();
            } catch (const internal::HostFailed&) {
              return nullptr;
            }
          },
          &context};
}

}  // namespace opgraft::contrib
