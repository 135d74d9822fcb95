// The worker processes of this process, shared by its sessions.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "opgraft/status.h"
#include "workers/options.h"
#include "workers/process.h"

namespace opgraft::workers {

struct Statistics {
  std::uint64_t workers = 0;   ///< processes that run now
  std::uint64_t calls = 0;     ///< calls of operators that workers were given
  std::uint64_t started = 0;   ///< processes that were started
  std::uint64_t restarts = 0;  ///< of these, those that replaced one that had ended
  std::uint64_t bytes = 0;     ///< of tensors, in both directions
  double queued = 0;           ///< seconds that calls have waited for a free worker
};

/// A call that is under way, so that it can be cancelled. Thread-safe.
struct ActiveCall {
  std::int64_t session = 0;
  std::atomic<bool> is_cancelled = false;
};

/// Never destroyed, since sessions may outlive every static object. A forked child has a new one.
class Pool {
 public:
  static Pool& OfThisProcess();

  /// A worker for one call, given back at the end.
  class Lease {
   public:
    Lease() = default;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { GiveBack(); }
    void GiveBack();
    Process* operator->() const { return process_.get(); }
    Process& operator*() const { return *process_; }

   private:
    friend class Pool;
    Pool* pool_ = nullptr;
    std::string group_;
    std::unique_ptr<Process> process_;
  };

  /// Waits for a free worker, one that has the operator if possible, or starts one. `only` is the
  /// serial number of the one worker that will do, or 0. If that has ended, any other one is taken.
  Status Take(const Options& options, std::uint64_t operator_id, std::uint64_t only,
              const Patience& patience, Lease* lease);

  /// Takes a free worker that has the operator; returns whether there is one.
  bool TakeFreeWith(const Options& options, std::uint64_t operator_id, Lease* lease);
  /// Has the workers drop an operator before their next calls.
  void Drop(const Options& options, std::uint64_t operator_id);

  void Enter(ActiveCall* call);
  void Leave(ActiveCall* call);
  /// Cancels the calls of a session that are under way, or all calls if it is 0.
  void Cancel(std::int64_t session);

  void CountCall(std::uint64_t bytes);
  Statistics Read();

  std::uint64_t NextNumber() { return next_number_.fetch_add(1); }

 private:
  struct Group {
    std::list<std::unique_ptr<Process>> free;  ///< the one that was used last comes first
    std::set<std::uint64_t> serials;           ///< of all its workers
    std::map<std::uint64_t, std::set<std::uint64_t>> to_drop;  ///< by worker, for busy ones
    std::uint64_t ended = 0;  ///< workers that have ended and were not replaced yet
  };
  std::unique_ptr<Process> FindFree(Group* group, std::uint64_t operator_id, std::uint64_t only);
  void GiveBack(const std::string& group, std::unique_ptr<Process> process);

  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<std::string, Group> groups_;
  std::set<ActiveCall*> active_;
  Statistics statistics_;
  static std::atomic<std::uint64_t> next_number_;
};

/// The number of the session that this thread is creating, or 0. opgraft._pyop has one of its own
/// (bridge/session_number.h), since a thread-local variable belongs to one library.
std::int64_t SessionInMaking();
/// Sets it; returns the number before.
std::int64_t ExchangeSession(std::int64_t number);

/// Cancels the calls of a session, and returns what the pool has done: for opgraft._pyop.
void CancelCalls(std::int64_t session);
Statistics ReadStatistics();

}  // namespace opgraft::workers
