// Two ways to the same functions: the headers of one Python version, or names at run time.
#include "python/call/python_api.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#ifdef Py_LIMITED_API
#include <dlfcn.h>
#endif

namespace opgraft::pyop {
namespace {

Status CannotStart(const char* program, const char* reason) {
  return Status::Unavailable("Python cannot be started as " + std::string(program) + ": " +
                             (reason != nullptr ? reason : "no reason given"));
}

#ifdef Py_LIMITED_API

/// Returns a function of the Python that runs, or nullptr if it has none of this name.
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// As Find; these functions are public and documented, and every version from 3.12 on has them.
template <typename Function>
Function* Need(const char* name) {
  auto* const found = Find<Function>(name);
  if (found == nullptr) Py_FatalError(name);
  return found;
}

/// By PEP 741, which Python has from 3.14 on. Its error is a value.
Status StartByInitConfig(const char* program) {
  struct InitConfig;
  auto* const create = Need<InitConfig*()>("PyInitConfig_Create");
  auto* const set_int = Need<int(InitConfig*, const char*, std::int64_t)>("PyInitConfig_SetInt");
  auto* const set_text = Need<int(InitConfig*, const char*, const char*)>("PyInitConfig_SetStr");
  auto* const start = Need<int(InitConfig*)>("Py_InitializeFromInitConfig");
  auto* const error = Need<int(InitConfig*, const char**)>("PyInitConfig_GetError");
  auto* const free = Need<void(InitConfig*)>("PyInitConfig_Free");
  InitConfig* const config = create();
  if (config == nullptr) return CannotStart(program, "out of memory");
  // PyInitConfig begins isolated; these are what PyConfig_InitPythonConfig gives.
  constexpr std::pair<const char*, std::int64_t> kSettings[] = {
      {"isolated", 0},          {"use_environment", 1},    {"user_site_directory", 1},
      {"parse_argv", 0},        {"configure_locale", 1},   {"install_signal_handlers", 0},
      {"configure_c_stdio", 1}, {"pathconfig_warnings", 1}};
  bool is_good = true;
  for (const auto& [name, value] : kSettings)
    is_good = is_good && set_int(config, name, value) == 0;
  is_good = is_good && set_text(config, "program_name", program) == 0 && start(config) == 0;
  const char* reason = nullptr;
  if (!is_good) error(config, &reason);
  const Status status = is_good ? Status() : CannotStart(program, reason);
  free(config);
  return status;
}

/// The beginning of PyConfig, which is the same in 3.12 and 3.13, and room for the rest of it.
struct BeginningOfConfig {
  int config_init;
  int isolated;
  int use_environment;
  int dev_mode;
  int install_signal_handlers;
  std::byte rest[8192];
};

/// The layout of PyStatus in 3.12 and 3.13.
struct LayoutOfStatus {
  enum { kOk = 0, kError = 1, kExit = 2 } kind;
  const char* function;
  const char* message;
  int exit_code;
};

/// The program's name is given as argv[0], since the place of the field for it differs.
Status StartByConfig(const char* program) {
  using Config = BeginningOfConfig;
  auto* const initialise = Need<void(Config*)>("PyConfig_InitPythonConfig");
  auto* const set_arguments =
      Need<LayoutOfStatus(Config*, Py_ssize_t, char* const*)>("PyConfig_SetBytesArgv");
  auto* const start = Need<LayoutOfStatus(const Config*)>("Py_InitializeFromConfig");
  auto* const clear = Need<void(Config*)>("PyConfig_Clear");
  Config config;
  initialise(&config);
  config.install_signal_handlers = 0;
  char* const arguments[] = {const_cast<char*>(program)};
  LayoutOfStatus status = set_arguments(&config, 1, arguments);
  if (status.kind == LayoutOfStatus::kOk) status = start(&config);
  clear(&config);
  return status.kind == LayoutOfStatus::kOk ? Status() : CannotStart(program, status.message);
}

#endif

}  // namespace

#ifdef Py_LIMITED_API

bool HoldsGil() {
  static auto* const check = Need<int()>("PyGILState_Check");
  return check() != 0;
}

PyInterpreterState* MainInterpreter() {
  static auto* const main = Need<PyInterpreterState*()>("PyInterpreterState_Main");
  return main();
}

void DeleteCurrentThreadState() {
  static auto* const remove = Need<void()>("PyThreadState_DeleteCurrent");
  remove();
}

unsigned long RunningVersion() { return Py_Version; }

std::string TypeName(PyObject* type) {
  // Types of C code that live as long as the process have their module in their name.
  const bool is_made_at_run_time =
      (PyType_GetFlags(reinterpret_cast<PyTypeObject*>(type)) & Py_TPFLAGS_HEAPTYPE) != 0;
  PyObject* const before = PyErr_GetRaisedException();
  const auto text = [](PyObject* object) {
    const char* utf8 = object != nullptr && PyUnicode_Check(object)
                           ? PyUnicode_AsUTF8AndSize(object, nullptr)
                           : nullptr;
    std::string copy = utf8 != nullptr ? utf8 : "";
    Py_XDECREF(object);
    return copy;
  };
  std::string name = text(PyType_GetName(reinterpret_cast<PyTypeObject*>(type)));
  if (!is_made_at_run_time) {
    const std::string module = text(PyObject_GetAttrString(type, "__module__"));
    if (!module.empty() && module != "builtins") name = module + "." + name;
  }
  PyErr_Clear();
  PyErr_SetRaisedException(before);
  return name;
}

Status StartInterpreter(const char* program) {
  return RunningVersion() >= 0x030E0000 ? StartByInitConfig(program) : StartByConfig(program);
}

#else

bool HoldsGil() { return PyGILState_Check() != 0; }

PyInterpreterState* MainInterpreter() { return PyInterpreterState_Main(); }

void DeleteCurrentThreadState() { PyThreadState_DeleteCurrent(); }

unsigned long RunningVersion() { return PY_VERSION_HEX; }

std::string TypeName(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; }

Status StartInterpreter(const char* program) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  PyStatus started = PyConfig_SetBytesString(&config, &config.program_name, program);
  if (PyStatus_Exception(started) == 0) started = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return PyStatus_Exception(started) == 0 ? Status() : CannotStart(program, started.err_msg);
}

#endif

}  // namespace opgraft::pyop
