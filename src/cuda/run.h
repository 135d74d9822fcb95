// The runs that this thread is in: which stream its work goes to.
#pragma once

#include <cstddef>

#include "cuda/gpu.h"
#include "opgraft/status.h"

namespace opgraft::cuda {

/// Of OrtRunOptions: the address of the stream that a run is to use, as a decimal number; 0 is the
/// default stream. " kept" behind it promises that the stream outlives what the run gives: memory
/// then goes back without waiting. Without the entry a run has a stream of its own, and is over
/// when its work is done.
inline constexpr char kStreamEntry[] = "opgraft.cuda.stream";

/// A run begins in this thread. `entry` is what the options say; nullptr or empty: nothing. Then it
/// is on the stream of the run that it is inside of, where a kernel runs a session, or on the one
/// that the thread has entered: a thread may begin and end one itself, for what belongs to a run
/// but comes before or after it.
Status BeginRun(Gpu& gpu, const char* entry);
/// The innermost run ends. Waits for its work if nobody named its stream and `must_wait`.
/// `is_named` tells whether somebody did.
Status EndRun(Gpu& gpu, bool must_wait, bool* is_named);

/// The stream of this thread's run on this GPU, or that it has entered; nullptr where it is in
/// none.
const KnownStream* FindRun(const Gpu& gpu) noexcept;

/// Gives back memory, in a run or not.
inline void Free(Gpu& gpu, void* memory) noexcept { gpu.Free(memory, FindRun(gpu)); }

}  // namespace opgraft::cuda
