// Decides where the inputs and outputs of kernels of ONNX Runtime's tree lie: on the GPU or in host
// memory.
#pragma once

#include <cstdint>
#include <vector>

#include "opgraft/contrib/kernel_def.h"
#include "opgraft/definition.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// Returns which of an operator's inputs a kernel for CUDA has in host memory; adds what is wrong
/// to the operator's problems.
std::vector<std::uint8_t> FindHostInputs(const onnxruntime::KernelDef& kernel,
                                         OperatorDefinition* definition);

/// Whether a kernel for CUDA would have strings on the GPU.
bool HasStringsOnGpu(const OperatorDefinition& definition, const KernelDefinition& kernel);

}  // namespace opgraft::internal
#pragma GCC visibility pop
