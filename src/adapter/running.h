// Reports which operator a thread runs to a program that asks for it: opgraft-run, which names the
// operator if something ends the process. Other programs only pay for a check of a pointer.
#pragma once

#include <atomic>
#include <string>

extern "C" {

/// Called on the thread that creates or runs an operator, before and after. Calls may nest.
struct OpgraftWatcher {
  void (*begin)(const char* who);
  void (*end)();
};

/// Makes libopgraft call `watcher` from now on. Must be called once, before any session is created;
/// `watcher` must never be freed.
__attribute__((visibility("default"))) void opgraft_watch(const OpgraftWatcher* watcher);
}

namespace opgraft::ort {

/// Only set in libopgraft: in a pack that is registered by itself it stays nullptr.
inline std::atomic<const OpgraftWatcher*> watcher = nullptr;

/// Reports that its thread is inside an operator for as long as it lives. `who` is a function that
/// returns the name.
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
