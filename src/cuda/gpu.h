// One GPU: its memory, which is allocated and freed in the order of work on streams, and its
// streams.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "opgraft/status.h"

namespace opgraft::cuda {

/// A stream, and whether it is known to exist for as long as memory is used on it. A stream of
/// others may be gone by the time that memory is freed.
struct KnownStream {
  Stream stream = nullptr;
  bool is_kept = true;
};

/// Thread-safe. Never destroyed: values may outlive every static object.
class Gpu {
 public:
  /// Returns all GPUs of this machine, in CUDA's order, or why there are none. Searches once.
  static const Status& FindAll(const std::vector<Gpu*>** gpus);

  /// Returns one of them, opened.
  static Status Find(std::size_t index, Gpu** gpu);

  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const Driver& driver() const { return driver_; }

  /// Opens the GPU. This costs time and memory, so that it is only done when the GPU is used. All
  /// functions below need it, except for those that allocate, which call it themselves. An error
  /// says why the GPU cannot be used.
  Status Open();

  /// Allocates memory for work submitted to `stream` from now on; nullptr if there is none.
  void* Allocate(std::size_t bytes, const KnownStream& stream) noexcept;
  /// Allocates memory for work on any stream; freeing it waits for all streams.
  void* AllocateForAll(std::size_t bytes) noexcept;
  /// Frees memory of these two. It is reused after all work that is on its stream by now. If that
  /// stream may no longer exist, this waits for all work of the GPU. `current` is the stream of
  /// this thread's run, which is known to exist.
  void Free(void* memory, const KnownStream* current = nullptr) noexcept;

  /// Allocates host memory that the GPU can access.
  void* AllocatePinned(std::size_t bytes) noexcept;
  void FreePinned(void* memory);

  /// Takes a stream for exclusive use until it is returned with GiveStream. It waits for earlier
  /// work on the default stream, which is torch's too, and the default stream waits for it.
  Status TakeStream(Stream* stream);
  void GiveStream(Stream stream);

  /// Returns why the last Allocate of this thread failed.
  static Status LastProblem();

  /// Whether host memory is pinned, by whomever: then a copy from it may still read it after the
  /// copy function has returned.
  bool IsPinned(const void* memory);

  /// Copies between device and host memory, in any direction.
  Status Copy(void* to, const void* from, std::size_t bytes, Stream stream);
  Status Synchronize(Stream stream);
  /// Waits for all work of all streams.
  Status SynchronizeAll();

  /// Makes this GPU the current one of CUDA's functions in this thread; returns the one before.
  Context Enter();
  void Leave(Context before);

 private:
  Gpu(const Driver& driver, int index) : driver_(driver), index_(index) {}
  static Status Search(std::vector<Gpu*>* gpus);
  /// What a stream does with work: it runs the work, it records it as part of a graph, or it takes
  /// none because a recording of another thread forbids work on the default stream.
  enum class Mode : std::uint8_t { kRuns, kRecords, kWaits };
  struct Owner {
    Stream stream = nullptr;
    bool is_recorded = false;  ///< it is part of a graph
    bool is_shared = false;    ///< work on other streams may use it, or its stream may be gone
  };
  Mode ModeOf(Stream stream) const;
  /// Returns whether the memory could be freed now.
  bool TryToFree(void* memory, const Owner& owner) const;

  /// Calls `try_once`, which allocates; if there is no memory, trims the pool and tries again.
  template <class Try>
  int Demand(Try try_once);
  /// Frees the memory that could not be freed before. Must not be called while this thread records.
  void FreeDeferred();

  const Driver& driver_;
  const int index_;
  std::string name_;
  Status fitness_;  ///< OK, or why the GPU cannot be used
  std::atomic<bool> is_open_ = false;
  Context context_ = nullptr;
  Pool pool_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<void*, Owner> owners_;        ///< the owner of each allocation
  std::vector<std::pair<void*, Owner>> deferred_;  ///< memory that cannot be freed yet
  std::vector<Stream> streams_;                    ///< streams that are not in use
};

/// While it exists, the GPU is the current one of this thread.
class InGpu {
 public:
  explicit InGpu(Gpu& gpu) : gpu_(gpu), before_(gpu.Enter()) {}
  InGpu(const InGpu&) = delete;
  InGpu& operator=(const InGpu&) = delete;
  ~InGpu() { gpu_.Leave(before_); }

 private:
  Gpu& gpu_;
  const Context before_;
};

}  // namespace opgraft::cuda
