// Copies between the memory of a GPU and of the host: for the runtime's tensors, and as the kernels
// of the nodes that the runtime inserts between two providers.
#pragma once

#include "adapter/runtime.h"
#include "cuda/tables.h"
#include "opgraft/status.h"

namespace opgraft::cuda {

/// Creates the object by which the runtime copies inputs and outputs; the runtime owns it.
DataTransferTable* MakeDataTransfer(const ort::Runtime& runtime);

/// Creates the kernels of MemcpyFromHost and MemcpyToHost, which are never freed.
Status MakeCopyKernels(const ort::Runtime& runtime, const OrtKernelRegistry** registry);

}  // namespace opgraft::cuda
