// One lock for all thread states; it is held for a moment, and never while the GIL is awaited.
#include "pyop/gil.h"

#include <mutex>
#include <new>

namespace opgraft::pyop {
namespace {

std::mutex thread_states;

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

void HoldThreadStates() { thread_states.lock(); }

void ReleaseThreadStates() { thread_states.unlock(); }

}  // namespace opgraft::pyop
