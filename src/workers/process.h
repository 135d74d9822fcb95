// One worker process: its start, the exchange of messages with it, its end.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"
#include "workers/options.h"
#include "workers/output.h"
#include "workers/shared_memory.h"

namespace opgraft::workers {

using Clock = std::chrono::steady_clock;

/// What may end the wait for a worker.
struct Patience {
  double timeout = 0;  ///< in seconds, for messages
  Clock::time_point deadline = Clock::time_point::max();
  const std::atomic<bool>* is_cancelled = nullptr;
  /// Asked from time to time; an error ends the wait and becomes the outcome. May be empty.
  std::function<Status()> interrupted;
};

/// Used by one thread at a time.
class Process {
 public:
  explicit Process(std::uint64_t serial) : serial_(serial) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Ends the process, and all of its group.
  ~Process();

  /// Starts it, and waits until it is ready.
  Status Start(const Options& options);

  std::uint64_t serial() const { return serial_; }
  /// False once the process has ended, or must be ended because it is in an unknown state.
  bool is_usable() const { return is_usable_; }
  /// Looks whether the process, which no call uses, is still there.
  bool CheckAlive();

  SharedMemory& memory() { return memory_; }

  /// Sends the request that lies in the memory from kContents on, and waits for the reply. An error
  /// says, after the word "its", how the process ended; it is not usable then.
  Status Exchange(std::size_t request_size, const Patience& patience, std::string* reply);
  /// The same for a message that is copied into the memory.
  Status Exchange(std::string_view request, const Patience& patience, std::string* reply);

  /// Ends the process, and returns the error for a reply that is not what it must be.
  Status Discard();
  /// Whether the process has ended by itself during an exchange, not by us.
  bool has_ended_itself() const { return has_ended_itself_; }

  /// The operators that have been made in it, and those that it is to drop.
  std::set<std::uint64_t> operators;
  std::vector<std::uint64_t> dropped;

 private:
  Status Spawn(const Options& options);
  Status AwaitReply(const Patience& patience);
  bool HasEnded();
  std::string HowItEnded();
  /// Ends the process, and returns an error with the end of its standard error.
  Status End(const std::string& what);
  void Kill();

  const std::uint64_t serial_;
  SharedMemory memory_;
  Output output_{1};
  Output errors_{2};
  pid_t process_ = -1;
  int control_ = -1;
  std::vector<int> remembered_;
  std::uint32_t turn_ = 0;
  bool is_usable_ = false;
  bool has_ended_itself_ = false;
  bool is_known_ = true;  ///< false if the host has reaped the process itself
  int code_ = 0;          ///< si_code and si_status of the process, once it has ended
  int status_ = 0;
};

/// Closes, in a forked child, the descriptors of all workers of the parent.
void CloseAllInChild();

}  // namespace opgraft::workers
