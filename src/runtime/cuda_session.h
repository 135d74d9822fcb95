// Adds the execution provider OpgraftCUDA to the options of sessions.
#pragma once

#include "adapter/runtime.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// `gpu` is the number of a GPU among those that CUDA sees. An UnavailableError says why there is
/// none.
Status UseCuda(const OrtApiBase* base, OrtEnv* environment, OrtSessionOptions* options, int gpu);

/// Returns an error if `options` have OpgraftCUDA and `session`, which was created with them, has
/// nodes on ONNX Runtime's own provider for CUDA.
Status CheckOneCudaProvider(const Runtime& runtime, const OrtSessionOptions* options,
                            const OrtSession* session);

}  // namespace opgraft::ort
