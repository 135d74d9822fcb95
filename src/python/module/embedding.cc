// Starts Python in a program that does not run it yet.
#include "python/module/embedding.h"

#include <nanobind/nanobind.h>

#include <cstdlib>
#include <utility>

#include "bridge/bridge.h"
#include "core/platform.h"
#include "python/call/exit_gate.h"
#include "python/call/gil.h"
#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Calls a function of opgraft._base._embedding; prints an exception. Needs the GIL. Uses Python's
/// C API only, since nanobind is not ready before the module _pyop is imported.
void CallEmbedding(const char* function) {
  PyObject* module = PyImport_ImportModule("opgraft._base._embedding");
  PyObject* result = module != nullptr ? PyObject_CallMethod(module, function, nullptr) : nullptr;
  if (result == nullptr) PyErr_Print();
  Py_XDECREF(result);
  Py_XDECREF(module);
}

void FinishPython() {
  {
    const ScopedGil gil;
    CallEmbedding("finish");
  }
  CloseGateOfOperators();
}

/// A child has one thread. If another thread held the GIL at the fork, the child could never take
/// it. So the thread that forks takes the GIL before, and notifies Python after, as os.fork does. A
/// fork by Python code holds the GIL already and needs nothing from us.
thread_local bool is_forking = false;
thread_local ScopedGil* gil_of_fork = nullptr;

void BeforeFork() {
  is_forking = !HoldsGil();
  if (is_forking) {
    gil_of_fork = new ScopedGil;  // one per thread: another may be forking now
    PyOS_BeforeFork();
  }
  HoldThreadStates();
}

void AfterForkInParent() {
  ReleaseThreadStatesInParent();
  if (!is_forking) return;
  PyOS_AfterFork_Parent();
  delete std::exchange(gil_of_fork, nullptr);
}

void AfterForkInChild() {
  ReleaseThreadStatesInChild();
  ResetGate();
  if (!is_forking) return;
  PyOS_AfterFork_Child();
  // The thread state is not destroyed: it may be the only one left, and Python 3.11 needs one.
  PyEval_SaveThread();
}

bool is_embedded = false;

Status Start(const char* program) {
  // Python installs its Ctrl-C handler when the module signal is first imported, whatever the
  // configuration says. begin() imports it; then the program's own handler is restored.
  const platform::KeptInterruptHandler program_handler;
  const Status started = StartInterpreter(program);
  if (!started.ok()) return started;
  CallEmbedding("begin");
  std::atexit(FinishPython);
  platform::OnFork(BeforeFork, AfterForkInParent, AfterForkInChild);
  is_embedded = true;
  PyEval_SaveThread();
  return Status();
}

}  // namespace

void PrepareForForks() {
  if (!is_embedded)
    platform::OnFork(HoldThreadStates, ReleaseThreadStatesInParent, AfterForkInChild);
}

}  // namespace opgraft::pyop

/// Its name is kStartPythonSymbol. `program` is the python command whose environment is used.
extern "C" NB_EXPORT void opgraft_start_python_6(const char* program, opgraft::Status* status) {
  *status = opgraft::pyop::Start(program);
}
