// The runtime calls all of a run in one thread, unless it is told to run nodes side by side.
#include "cuda/run.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace opgraft::cuda {
namespace {

struct Run {
  Gpu* gpu = nullptr;
  Stream stream = nullptr;
  bool is_own = false;  ///< the stream is this run's
  Context before = nullptr;
};

thread_local std::vector<Run> runs;

Status ParseStream(const char* entry, Stream* stream) {
  std::uintptr_t address = 0;
  const char* const end = entry + std::strlen(entry);
  const auto [stopped, error] = std::from_chars(entry, end, address);
  if (error != std::errc() || stopped != end) {
    return Status::Error(std::string("the run option ") + kStreamEntry + " is '" + entry +
                         "', expected the address of a CUDA stream as a decimal number");
  }
  *stream = reinterpret_cast<Stream>(address);
  return Status();
}

}  // namespace

Status BeginRun(Gpu& gpu, const char* entry) {
  Run run;
  run.gpu = &gpu;
  run.is_own = entry == nullptr;
  const Status status = run.is_own ? gpu.TakeStream(&run.stream) : ParseStream(entry, &run.stream);
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
    if (must_wait) status = gpu.Synchronize(run.stream);
    gpu.GiveStream(run.stream);
  }
  gpu.Leave(run.before);
  return status;
}

bool FindRun(const Gpu& gpu, Stream* stream) {
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->gpu != &gpu) continue;
    *stream = run->stream;
    return true;
  }
  return false;
}

}  // namespace opgraft::cuda
