// Starts Python in a program that has none.
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <string>

#include "core/platform.h"
#include "pyop/bridge.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Python is left running when the program ends, since threads may be inside it; but what operators
/// have printed must come out, and what they registered with atexit must run.
void FinishPython() {
  const nb::gil_scoped_acquire gil;
  const auto call = [](const nb::object& object, const char* method) {
    try {
      object.attr(method)();
    } catch (nb::python_error&) {  // there is nobody left to tell
    }
  };
  call(nb::module_::import_("atexit"), "_run_exitfuncs");
  call(nb::module_::import_("sys").attr("stdout"), "flush");
  call(nb::module_::import_("sys").attr("stderr"), "flush");
}

}  // namespace
}  // namespace opgraft::pyop

/// Its name is kStartPythonSymbol. `program` is the python command whose environment is to serve.
extern "C" NB_EXPORT void opgraft_start_python_1(const char* program, opgraft::Status* status) {
  const opgraft::platform::KeptInterruptHandler program_handler;
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  PyStatus started = PyConfig_SetBytesString(&config, &config.program_name, program);
  if (PyStatus_Exception(started) == 0) started = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(started) != 0) {
    const std::string reason = started.err_msg != nullptr ? started.err_msg : "no reason given";
    *status = opgraft::Status::Unavailable("Python cannot be started as " + std::string(program) +
                                           ": " + reason);
    return;
  }
  // The module takes Ctrl-C over when it is first imported, whatever the configuration says. So
  // that is done here, where the program's own way is restored.
  const nb::object signal = nb::steal(PyImport_ImportModule("signal"));
  if (!signal.is_valid()) PyErr_Clear();
  std::atexit(opgraft::pyop::FinishPython);
  PyEval_SaveThread();
}
