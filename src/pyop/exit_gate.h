// Holds threads back from a Python that is at its end, where they would end the process.
//
// A thread that asks for the GIL then is ended by Python itself (pthread_exit, before 3.14), and
// its stack is unwound through ONNX Runtime, which aborts. So when the process exits, runs that
// begin are parked, those under way are awaited for a while, and what is inside an operator stays
// there: parked threads sleep until the process is gone. The thread that exits may still run
// sessions, as may those that are no daemons: while they do, no operator is held back.
#pragma once

#include <Python.h>

#include "core/platform.h"

namespace opgraft::pyop {

/// Sleeps until the process is gone.
[[noreturn]] void Park() noexcept;

/// A run of a session of ours begins, or ends. Both need the GIL; the first does not return once
/// the gate is closed, but in the thread that has closed it and in those that are no daemons.
void EnterRun();
void LeaveRun();

/// To be called at the exit of a Python program, with the GIL.
void CloseGate();

/// To be called at the exit of a program that has started Python, without the GIL. Its runs are not
/// known, but the operators are that they call: threads are parked there, away from a runtime whose
/// own end comes next.
void CloseGateOfOperators();

/// To be called in a forked child, where the other threads are no more.
void ResetGate();

/// Stands for the time that a thread of the runtime is inside an operator.
class OperatorCall {
 public:
  OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;
  /// Parks where the process is exiting: the runtime is no place to go back to.
  ~OperatorCall();
};

/// Calls `body` without the GIL. In place of nanobind's gil_scoped_release, which aborts where
/// Python has ended meanwhile.
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
