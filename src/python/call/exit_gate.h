// Keeps threads from entering Python while it shuts down, which would abort the process.
//
// Before 3.14, Python ends a thread that asks for the GIL during shutdown (pthread_exit), and its
// stack is unwound through ONNX Runtime, which aborts. So when the process exits, new runs are
// parked, runs under way get some time to finish, and threads inside an operator stay there: parked
// threads sleep until the process is gone. The exiting thread and non-daemon threads may still run
// sessions; while they do, no operator is held back.
#pragma once

#include <Python.h>

#include "core/platform.h"

namespace opgraft::pyop {

/// Sleeps until the process is gone.
[[noreturn]] void Park() noexcept;

/// To be called when a run of one of our sessions begins and ends. Both need the GIL. Once the gate
/// is closed, EnterRun returns only in the thread that closed it and in non-daemon threads.
void EnterRun();
void LeaveRun();

/// To be called at the exit of a Python program, with the GIL.
void CloseGate();

/// To be called at the exit of a program that has started Python, without the GIL. Its runs are not
/// counted, but their operator calls are: threads are parked there, so that they do not return to a
/// runtime that is about to be destroyed.
void CloseGateOfOperators();

/// To be called in a forked child, which does not have the other threads.
void ResetGate();

/// Exists while a thread of the runtime is inside an operator.
class OperatorCall {
 public:
  OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;
  /// Parks the thread if the process is exiting, so that it does not return to the runtime.
  ~OperatorCall();
};

/// Calls `body` without the GIL. Unlike nanobind's gil_scoped_release, it does not abort if Python
/// ends meanwhile.
template <class Body>
void WithoutGil(Body body) noexcept {
  PyThreadState* const state = PyEval_SaveThread();
  body();
  try {
    PyEval_RestoreThread(state);
  } catch (const platform::ThreadExit&) {
    Park();
  }
}

}  // namespace opgraft::pyop
