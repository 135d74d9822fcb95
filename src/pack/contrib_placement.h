// Where the values of kernels in the manner of ONNX Runtime's tree are: on the GPU or on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "opgraft/contrib/kernel_def.h"
#include "opgraft/definition.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// Which of an operator's inputs a kernel for CUDA has in host memory; what is wrong with that goes
/// to the operator's problems.
std::vector<std::uint8_t> FindHostInputs(const onnxruntime::KernelDef& kernel,
                                         OperatorDefinition* definition);

/// Whether a kernel for CUDA would have strings on the GPU.
bool HasStringsOnGpu(const OperatorDefinition& definition, const KernelDefinition& kernel);

}  // namespace opgraft::internal
#pragma GCC visibility pop
