// One lock guards all thread states. It is held only briefly, never while waiting for the GIL.
#include "python/call/gil.h"

#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include "python/call/python_api.h"

namespace opgraft::pyop {
namespace {

// Python 3.13 and newer takes its own lock before a fork. Waiting for ours as well could deadlock
// with a thread that holds ours and waits for Python's.
bool PythonLocksForFork() { return RunningVersion() >= 0x030D0000; }

constexpr std::chrono::milliseconds kLongestWait{1000};  // the lock is only held briefly

std::timed_mutex thread_states;
bool is_held = false;  // by the thread that forks

}  // namespace

ScopedGil::ScopedGil() {
  if (PyGILState_GetThisThreadState() != nullptr) {
    before_ = PyGILState_Ensure();
    return;
  }
  {
    const std::lock_guard lock(thread_states);
    made_ = PyThreadState_New(MainInterpreter());
  }
  if (made_ == nullptr) throw std::bad_alloc();
  PyEval_RestoreThread(made_);
}

ScopedGil::~ScopedGil() {
  if (made_ == nullptr) {
    PyGILState_Release(before_);
    return;
  }
  PyThreadState_Clear(made_);
  const std::lock_guard lock(thread_states);
  DeleteCurrentThreadState();
}

void HoldThreadStates() {
  const bool is_locked = !PythonLocksForFork() && thread_states.try_lock_for(kLongestWait);
  if (is_locked) is_held = true;
}

void ReleaseThreadStatesInParent() {
  if (std::exchange(is_held, false)) thread_states.unlock();
}

void ReleaseThreadStatesInChild() {
  is_held = false;
  new (&thread_states) std::timed_mutex;  // the thread that held it does not exist here
}

}  // namespace opgraft::pyop
