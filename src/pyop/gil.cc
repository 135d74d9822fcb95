// One lock for all thread states; it is held for a moment, and never while the GIL is awaited.
#include "pyop/gil.h"

#include <chrono>
#include <mutex>
#include <new>
#include <utility>

namespace opgraft::pyop {
namespace {

// Python 3.13 holds its own lock while it forks. To wait for ours then could be to wait for a
// thread that waits for Python's.
constexpr bool kPythonSeesToIt = PY_VERSION_HEX >= 0x030D0000;
constexpr std::chrono::milliseconds kLongestWait{1000};  // it is held for a moment

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
    made_ = PyThreadState_New(PyInterpreterState_Main());
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
  PyThreadState_DeleteCurrent();
}

void HoldThreadStates() {
  const bool is_locked = !kPythonSeesToIt && thread_states.try_lock_for(kLongestWait);
  if (is_locked) is_held = true;
}

void ReleaseThreadStatesInParent() {
  if (std::exchange(is_held, false)) thread_states.unlock();
}

void ReleaseThreadStatesInChild() {
  is_held = false;
  new (&thread_states) std::timed_mutex;  // whoever held it is not here
}

}  // namespace opgraft::pyop
