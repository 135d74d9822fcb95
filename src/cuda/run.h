// The runs that this thread is in, and the streams that their work goes to.
#pragma once

#include <cstddef>

#include "cuda/gpu.h"
#include "opgraft/status.h"

namespace opgraft::cuda {

/// The entry of OrtRunOptions with the address of the stream that a run must use, as a decimal
/// number; 0 is the default stream. A suffix " kept" promises that the stream outlives the run's
/// results: memory is then freed without waiting. Without the entry a run has a stream of its own,
/// and returns when its work is done.
inline constexpr char kStreamEntry[] = "opgraft.cuda.stream";

/// Begins a run in this thread. `entry` is the entry in the options; nullptr or empty if there is
/// none. Then the run is on the stream of the run around it, if a kernel runs a session, or on the
/// stream that the thread has entered: a thread may begin and end a run itself, for work that
/// belongs to a run but comes before or after it.
Status BeginRun(Gpu& gpu, const char* entry);
/// Ends the innermost run. Waits for its work if `must_wait` and the caller has not named its
/// stream. `is_named` is set to whether the caller has named it.
Status EndRun(Gpu& gpu, bool must_wait, bool* is_named);

/// Returns the stream of this thread's run on this GPU, or the one that it has entered; nullptr if
/// it is in no run.
const KnownStream* FindRun(const Gpu& gpu) noexcept;

/// Frees memory, in a run or outside.
inline void Free(Gpu& gpu, void* memory) noexcept { gpu.Free(memory, FindRun(gpu)); }

}  // namespace opgraft::cuda
