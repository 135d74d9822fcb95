// The GIL for threads that Python may never have seen, in a process that may fork.
//
// Python makes a state for such a thread under a lock that, before 3.13, a fork does not take: a
// child forked meanwhile waits for that lock forever. So thread states are made and deleted under
// our own lock, which is taken before each fork.
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
  PyThreadState* made_ = nullptr;  // nullptr if the thread already had a state
  PyGILState_STATE before_{};
};

/// To be called before a fork, and after it in each process. No thread state is made or deleted in
/// between. A thread that needs the GIL as well must take the GIL first.
void HoldThreadStates();
void ReleaseThreadStatesInParent();
void ReleaseThreadStatesInChild();

}  // namespace opgraft::pyop
