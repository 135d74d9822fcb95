// The runtime calls all of a run in one thread, unless it is told to run nodes side by side.
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
  bool is_own = false;  ///< the stream is this run's
  Context before = nullptr;
};

thread_local std::vector<Run> runs;

Status ParseStream(std::string_view entry, KnownStream* known) {
  constexpr std::string_view kKept = " kept";
  std::string_view number = entry;
  known->is_kept = number.ends_with(kKept);
  if (known->is_kept) number.remove_suffix(kKept.size());
  std::uintptr_t address = 0;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, address);
  if (error != std::errc() || stopped != end) {
    return Status::Error(std::string("the run option ") + kStreamEntry + " is '" +
                         std::string(entry) +
                         "', expected the address of a CUDA stream as a decimal number");
  }
  known->stream = reinterpret_cast<Stream>(address);
  known->is_kept |= address == 0;  // the default stream is always there
  return Status();
}

}  // namespace

Status BeginRun(Gpu& gpu, const char* entry) {
  Run run;
  run.gpu = &gpu;
  run.is_own = entry == nullptr;
  const Status status =
      run.is_own ? gpu.TakeStream(&run.known.stream) : ParseStream(entry, &run.known);
  if (!status.ok()) return status;
  run.before = gpu.Enter();
  runs.push_back(run);
  return Status();
}

Status EndRun(Gpu& gpu, bool must_wait) {
  if (runs.empty() || runs.back().gpu != &gpu) return Status();  // it has not begun
  const Run run = runs.back();
  runs.pop_back();
  Status status;
  if (run.is_own) {
    if (must_wait) status = gpu.Synchronize(run.known.stream);
    gpu.GiveStream(run.known.stream);
  }
  gpu.Leave(run.before);
  return status;
}

const KnownStream* FindRun(const Gpu& gpu) {
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->gpu == &gpu) return &run->known;
  }
  return nullptr;
}

}  // namespace opgraft::cuda
