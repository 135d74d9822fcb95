// One GPU: its memory, which is allotted and given back in the order of streams, and its streams.
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

/// A stream, and whether it is there for good. One of others may be gone by the time that memory is
/// given back.
struct KnownStream {
  Stream stream = nullptr;
  bool is_kept = true;
};

/// Thread-safe. Never destroyed: values may outlive every static object.
class Gpu {
 public:
  /// All GPUs of this machine, in CUDA's order, or why there are none. Found once.
  static const Status& FindAll(const std::vector<Gpu*>** gpus);

  /// One of them, opened.
  static Status Find(std::size_t index, Gpu** gpu);

  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const Driver& driver() const { return driver_; }

  /// Costs time and memory, so that it is only done when the GPU is used; all below needs it but
  /// for what allocates, which does so itself. An error says why the GPU is of no use.
  Status Open();

  /// Memory for work that is put on `stream` from now on; nullptr where there is none.
  void* Allocate(std::size_t bytes, const KnownStream& stream) noexcept;
  /// Memory for work on any stream, which is waited for when it is given back.
  void* AllocateForAll(std::size_t bytes) noexcept;
  /// Gives back what one of these has given. It is free for others when all work is done that is by
  /// now on the stream that it was for; if nobody knows whether that is still there, all work of
  /// the GPU is waited for. `current` is a stream that is there: that of this thread's run.
  void Free(void* memory, const KnownStream* current = nullptr) noexcept;

  /// Host memory that the GPU reaches.
  void* AllocatePinned(std::size_t bytes) noexcept;
  void FreePinned(void* memory);

  /// A stream that is nobody else's until it is given back. It waits for work that was put on the
  /// default stream before, which is torch's too, and the default stream waits for it.
  Status TakeStream(Stream* stream);
  void GiveStream(Stream stream);

  /// Why the last Allocate of this thread gave nothing.
  static Status LastProblem();

  /// Whether host memory is read while a copy of it goes on, by whomever it was pinned.
  bool IsPinned(const void* memory);

  /// Copies between memory of the device and of the host, in any direction.
  Status Copy(void* to, const void* from, std::size_t bytes, Stream stream);
  Status Synchronize(Stream stream);
  /// Waits for all work of all streams.
  Status SynchronizeAll();

  /// Makes this GPU the one that CUDA's functions mean in this thread; gives what it was before.
  Context Enter();
  void Leave(Context before);

 private:
  Gpu(const Driver& driver, int index) : driver_(driver), index_(index) {}
  static Status Search(std::vector<Gpu*>* gpus);
  /// What a stream does with work: it runs it; or records it, as part of a graph; or it may not be
  /// given any, for another thread's recording forbids work on the default stream.
  enum class Mode : std::uint8_t { kRuns, kRecords, kWaits };
  struct Owner {
    Stream stream = nullptr;
    bool is_recorded = false;  ///< it is part of a graph
    bool is_shared = false;    ///< work on other streams may use it, or on one that is gone
  };
  Mode ModeOf(Stream stream) const;
  /// Whether memory could be given back now.
  bool TryToFree(void* memory, const Owner& owner) const;

  /// Has the driver give what `try_once` asks it for, if need be after all that is free went back.
  template <class Try>
  int Demand(Try try_once);
  /// Gives back what could not be so far. Not while this thread records.
  void FreeDeferred();

  const Driver& driver_;
  const int index_;
  std::string name_;
  Status fitness_;  ///< why it is of no use; OK where it is
  std::atomic<bool> is_open_ = false;
  Context context_ = nullptr;
  Pool pool_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<void*, Owner> owners_;        ///< of each piece of memory
  std::vector<std::pair<void*, Owner>> deferred_;  ///< what cannot be given back yet
  std::vector<Stream> streams_;                    ///< nobody's
};

/// While it is there, this thread's GPU is the one given.
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
