// Starts Python in a program that has none.
#include "pyop/embedding.h"

#include <nanobind/nanobind.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "core/platform.h"
#include "pyop/bridge.h"
#include "pyop/exit_gate.h"
#include "pyop/gil.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Calls a function of opgraft._embedding; prints what it raises. Needs the GIL. By Python's own
/// interface alone, since nanobind is not ready before the module _pyop is imported.
void CallEmbedding(const char* function) {
  PyObject* module = PyImport_ImportModule("opgraft._embedding");
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

/// A child has one thread. Were the GIL another's when it was forked, it would be so for good, so
/// the thread that forks takes it before, and tells Python after, as Python's own os.fork does.
/// A fork that comes from Python has the GIL and is none of our business.
thread_local bool is_forking = false;
thread_local ScopedGil* gil_of_fork = nullptr;

void BeforeFork() {
  is_forking = PyGILState_Check() == 0;
  if (is_forking) {
    gil_of_fork = new ScopedGil;  // another thread may be forking at this moment
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
  // The thread keeps its state, so nothing is destroyed: it may be the only one now, and
  // Python 3.11 cannot do without any.
  PyEval_SaveThread();
}

bool is_embedded = false;

Status Start(const char* program) {
  // Python takes Ctrl-C over when its module signal is first imported, whatever the configuration
  // says; begin() imports it, and then the program's own way is restored.
  const platform::KeptInterruptHandler program_handler;
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  PyStatus started = PyConfig_SetBytesString(&config, &config.program_name, program);
  if (PyStatus_Exception(started) == 0) started = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(started) != 0) {
    const std::string reason = started.err_msg != nullptr ? started.err_msg : "no reason given";
    return Status::Unavailable("Python cannot be started as " + std::string(program) + ": " +
                               reason);
  }
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

/// Its name is kStartPythonSymbol. `program` is the python command whose environment is to serve.
extern "C" NB_EXPORT void opgraft_start_python_5(const char* program, opgraft::Status* status) {
  *status = opgraft::pyop::Start(program);
}
