// Guards a thread's stack against operators and sessions that call each other without end.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "opgraft/status.h"

namespace opgraft {

/// Represents a call from the runtime into an operator, and counts how deeply such calls are nested
/// in this thread. Header-only, because it is part of every pack.
class NestedCall {
 public:
  NestedCall() { ++depth_; }
  NestedCall(const NestedCall&) = delete;
  NestedCall& operator=(const NestedCall&) = delete;
  ~NestedCall() { --depth_; }

  /// Returns an error if the calls are nested so deeply that the next one may exhaust the stack.
  static Status Check() {
    if (depth_ <= 1) return Status();  // the outermost call is always tried
    if (depth_ <= kDeepest && HasStack()) return Status();
    return Status::Error(
        "operators and sessions call each other " + std::to_string(depth_) +
        " deep in one thread, and the next call " +
        (depth_ > kDeepest ? "exceeds the limit. Fix: end the recursion"
                           : "may exhaust the thread's stack. Fix: end the recursion, or give the "
                             "thread a larger stack (in Python with threading.stack_size)"));
  }

 private:
  static constexpr int kDeepest = 1000;
  /// Several times what ONNX Runtime needs to make a session, or a Python operator to run.
  static constexpr std::size_t kLeast = std::size_t{320} * 1024;

  static bool HasStack() {
    struct Bounds {
      std::uintptr_t low = 0;
      std::size_t size = 0;
    };
    static thread_local const Bounds bounds = [] {
      Bounds found;
      pthread_attr_t attributes;
      if (pthread_getattr_np(pthread_self(), &attributes) != 0) return found;
      void* low = nullptr;
      if (pthread_attr_getstack(&attributes, &low, &found.size) == 0) {
        found.low = reinterpret_cast<std::uintptr_t>(low);
      }
      pthread_attr_destroy(&attributes);
      return found;
    }();
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    // A program may have stacks of its own, about which nothing is known.
    if (here < bounds.low || here - bounds.low > bounds.size) return true;
    return here - bounds.low >= std::min(kLeast, bounds.size / 2);
  }

  static inline thread_local int depth_ = 0;
};

}  // namespace opgraft
