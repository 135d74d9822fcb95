// Finds the GPU on which the execution provider OpgraftCUDA runs cases.
#pragma once

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// Registers the provider's library, which the variable OPGRAFT_TEST_CUDA names, and finds the
/// first GPU. The runtime must be 1.24 or newer. An error says why there is no GPU.
Status FindFirstGpu(const OrtApi* api, OrtEnv* environment, const OrtEpDevice** gpu);

}  // namespace opgraft::op_test
#pragma GCC visibility pop
