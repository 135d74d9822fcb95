// The runs that this thread is in: which stream its work goes to.
#pragma once

#include <cstddef>

#include "cuda/gpu.h"
#include "opgraft/status.h"

namespace opgraft::cuda {

/// Of OrtRunOptions: the address of the stream that a run is to use, as a decimal number; 0 is the
/// default stream. Without it a run has a stream of its own, and is over when its work is done.
inline constexpr char kStreamEntry[] = "opgraft.cuda.stream";

/// A run begins in this thread, inside another where a kernel runs a session. `entry` is what the
/// options say; nullptr: nothing.
Status BeginRun(Gpu& gpu, const char* entry);
/// The innermost run ends. Waits for its work if it has a stream of its own and `must_wait`.
Status EndRun(Gpu& gpu, bool must_wait);

/// Whether this thread is in a run on this GPU, and its stream.
bool FindRun(const Gpu& gpu, Stream* stream);

}  // namespace opgraft::cuda
