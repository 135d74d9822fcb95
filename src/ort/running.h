// Which operator a thread runs, for a program that asks to be told: opgraft-run, which says it
// where something ends the process. Nobody else pays more than a look at a pointer.
#pragma once

#include <atomic>
#include <string>

extern "C" {

/// Called on the thread that makes or runs an operator, before and after. Calls may nest.
struct OpgraftWatcher {
  void (*begin)(const char* who);
  void (*end)();
};

/// Has libopgraft tell `watcher`, for good. To be called once, before any session is made.
__attribute__((visibility("default"))) void opgraft_watch(const OpgraftWatcher* watcher);
}

namespace opgraft::ort {

/// Set in libopgraft alone: in a pack that is registered by itself, it stays empty.
inline std::atomic<const OpgraftWatcher*> watcher = nullptr;

/// While it lives, its thread is inside what `who`, a function, says.
class Running {
 public:
  template <class Who>
  explicit Running(const Who& who) : watcher_(watcher.load(std::memory_order_acquire)) {
    if (watcher_ != nullptr) watcher_->begin(std::string(who()).c_str());
  }
  ~Running() {
    if (watcher_ != nullptr) watcher_->end();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const OpgraftWatcher* const watcher_;
};

}  // namespace opgraft::ort
