// Parallel loops on the runtime's own threads, as kernels of ONNX Runtime's tree write them.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>

#include "opgraft/kernel.h"

#pragma GCC visibility push(hidden)
namespace onnxruntime {

/// The cost of one iteration of a loop.
struct TensorOpCost {
  double bytes_loaded = 0;
  double bytes_stored = 0;
  double compute_cycles = 0;
};

namespace concurrency {

/// The runtime's threads during one call. A nested loop runs on the thread that reaches it. An
/// exception thrown by a loop's body propagates out of the loop.
class ThreadPool {
 public:
  explicit ThreadPool(opgraft::Context* context) : context_(context) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  using RangeFunction = std::function<void(std::ptrdiff_t first, std::ptrdiff_t last)>;

  /// Calls `fn(first, last)` for parts of [0, total), each large enough to be worth a thread.
  static void TryParallelFor(ThreadPool* pool, std::ptrdiff_t total, const TensorOpCost& cost,
                             const RangeFunction& fn);
  static void TryParallelFor(ThreadPool* pool, std::ptrdiff_t total, double cycles,
                             const RangeFunction& fn) {
    TryParallelFor(pool, total, TensorOpCost{0, 0, cycles}, fn);
  }
  /// Calls `fn(i)` for each i below `total`.
  static void TrySimpleParallelFor(ThreadPool* pool, std::ptrdiff_t total,
                                   const std::function<void(std::ptrdiff_t)>& fn) {
    Run(pool, total, 0, fn);
  }
  /// Like TrySimpleParallelFor, in the given number of batches; 0: the runtime decides.
  template <class Function>
  static void TryBatchParallelFor(ThreadPool* pool, std::ptrdiff_t total, Function&& fn,
                                  std::ptrdiff_t batches) {
    Run(pool, total, batches, fn);
  }

  struct WorkInfo {
    std::ptrdiff_t start;
    std::ptrdiff_t end;
  };
  /// Returns the part of `total` that belongs to batch `index` of `batches`.
  static constexpr WorkInfo PartitionWork(std::ptrdiff_t index, std::ptrdiff_t batches,
                                          std::ptrdiff_t total) {
    const std::ptrdiff_t size = total / batches;
    const std::ptrdiff_t more = total % batches;
    const std::ptrdiff_t start = index * size + (index < more ? index : more);
    return {start, start + size + (index < more ? 1 : 0)};
  }

  /// Returns the number of threads of the machine, because the runtime does not report its own.
  static int DegreeOfParallelism(const ThreadPool* pool) {
    if (pool == nullptr) return 1;
    const auto threads = static_cast<int>(std::thread::hardware_concurrency());
    return threads > 0 ? threads : 1;
  }
  static bool ShouldParallelize(const ThreadPool* pool) { return DegreeOfParallelism(pool) > 1; }

 private:
  template <class Function>
  static void Run(ThreadPool* pool, std::ptrdiff_t total, std::ptrdiff_t batches, Function&& fn) {
    if (total <= 0) return;
    const Turn turn(pool);
    if (!turn.has_threads() || total == 1) {
      for (std::ptrdiff_t i = 0; i < total; ++i) fn(i);
      return;
    }
    pool->context_->ParallelFor(
        static_cast<std::size_t>(total),
        [&](std::size_t index) { fn(static_cast<std::ptrdiff_t>(index)); },
        static_cast<std::size_t>(batches > 0 ? batches : 0));
  }

  /// Only the thread that owns the call may ask the host for a loop, and one loop at a time.
  class Turn {
   public:
    explicit Turn(ThreadPool* pool)
        : pool_(pool != nullptr && pool->owner_ == std::this_thread::get_id() && !pool->is_busy_
                    ? pool
                    : nullptr) {
      if (pool_ != nullptr) pool_->is_busy_ = true;
    }
    ~Turn() {
      if (pool_ != nullptr) pool_->is_busy_ = false;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool has_threads() const { return pool_ != nullptr; }

   private:
    ThreadPool* const pool_;
  };

  opgraft::Context* const context_;
  const std::thread::id owner_ = std::this_thread::get_id();
  bool is_busy_ = false;  // only the owner's thread uses it
};

}  // namespace concurrency
}  // namespace onnxruntime
#pragma GCC visibility pop
