// Adds the execution provider OpgraftCUDA to the options of sessions.
#pragma once

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// `gpu` is the number of a GPU among those that CUDA sees. An UnavailableError says why there is
/// none.
Status UseCuda(const OrtApiBase* base, OrtEnv* environment, OrtSessionOptions* options, int gpu);

}  // namespace opgraft::ort
