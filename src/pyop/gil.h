// The GIL for threads that Python may never have seen, in a process that may fork.
//
// Python makes a state for such a thread, under a lock that it does not see to before it forks,
// until 3.13: a child forked meanwhile waits for that lock for good. So states are made and deleted
// under a lock of our own, which is taken before each fork.
#pragma once

#include <Python.h>

namespace opgraft::pyop {

/// Holds the GIL, as nanobind's gil_scoped_acquire does.
class ScopedGil {
 public:
  ScopedGil();
  ScopedGil(const ScopedGil&) = delete;
  ScopedGil& operator=(const ScopedGil&) = delete;
  ~ScopedGil();

 private:
  PyThreadState* made_ = nullptr;  // nullptr where the thread has had one
  PyGILState_STATE before_{};
};

/// Before a fork, and after it in either process. No thread state is made or deleted in between.
/// A thread that wants the GIL as well must have it first.
void HoldThreadStates();
void ReleaseThreadStatesInParent();
void ReleaseThreadStatesInChild();

}  // namespace opgraft::pyop
