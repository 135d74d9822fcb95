// Copies between the memory of a GPU and of the host: of the runtime's tensors, and as kernels of
// the nodes that it puts between two providers.
#pragma once

#include "cuda/tables.h"
#include "opgraft/status.h"
#include "ort/runtime.h"

namespace opgraft::cuda {

/// What the runtime copies inputs and outputs by. It is the runtime's.
DataTransferTable* MakeDataTransfer(const ort::Runtime& runtime);

/// The kernels of MemcpyFromHost and MemcpyToHost, for good.
Status MakeCopyKernels(const ort::Runtime& runtime, const OrtKernelRegistry** registry);

}  // namespace opgraft::cuda
