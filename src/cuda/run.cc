// The runtime calls all kernels of a run in one thread, unless it is told to run nodes in parallel.
#include "cuda/run.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::cuda {
namespace {

struct Run {
  Gpu* gpu = nullptr;
  KnownStream known;
  bool is_own = false;    ///< the stream belongs to this run
  bool is_named = false;  ///< the caller has named the stream
  Context before = nullptr;
};

/// The runs of this thread; nullptr before the first. Never destroyed, because values may be freed
/// after the thread-local objects are gone.
thread_local std::vector<Run>* runs = nullptr;

Status ParseStream(std::string_view entry, KnownStream* known) {
  constexpr std::string_view kKept = " kept";
  std::string_view number = entry;
  known->is_kept = number.ends_with(kKept);
  if (known->is_kept) number.remove_suffix(kKept.size());
  std::uintptr_t address = 0;
  const char* const begin = number.data();
  const char* const end = begin + number.size();
  const auto [stopped, error] = std::from_chars(begin, end, address);
  if (error != std::errc() || stopped != end) {
    return Status::Error(std::string("the run option ") + kStreamEntry + " is '" +
                         std::string(entry) +
                         "', expected the address of a CUDA stream as a decimal number");
  }
  known->stream = reinterpret_cast<Stream>(address);  // NOLINT(performance-no-int-to-ptr)
  known->is_kept |= address == 0;                     // the default stream always exists
  return Status();
}

/// Returns the innermost run.
const Run* Find(const Gpu& gpu) {
  if (runs == nullptr) return nullptr;
  for (auto run = runs->rbegin(); run != runs->rend(); ++run) {
    if (run->gpu == &gpu) return &*run;
  }
  return nullptr;
}

}  // namespace

Status BeginRun(Gpu& gpu, const char* entry) {
  Run run;
  run.gpu = &gpu;
  Status status;
  if (entry != nullptr && *entry != 0) {
    run.is_named = true;
    status = ParseStream(entry, &run.known);
  } else if (const Run* const outer = Find(gpu)) {
    run.known = outer->known;
    run.is_named = outer->is_named;
  } else {
    run.is_own = true;
    status = gpu.TakeStream(&run.known.stream);
  }
  if (!status.ok()) return status;
  run.before = gpu.Enter();
  if (runs == nullptr) runs = new std::vector<Run>;
  runs->push_back(run);
  return Status();
}

Status EndRun(Gpu& gpu, bool must_wait, bool* is_named) {
  if (runs == nullptr || runs->empty() || runs->back().gpu != &gpu) return Status();  // not begun
  const Run run = runs->back();
  runs->pop_back();
  *is_named = run.is_named;
  Status status;
  if (must_wait && !run.is_named) status = gpu.Synchronize(run.known.stream);
  if (run.is_own) gpu.GiveStream(run.known.stream);
  gpu.Leave(run.before);
  return status;
}

const KnownStream* FindRun(const Gpu& gpu) noexcept {
  const Run* const run = Find(gpu);
  return run != nullptr ? &run->known : nullptr;
}

}  // namespace opgraft::cuda
