// Looks up Python's functions by name: no header of Python is included here, no library of it is
// linked.
#include "bridge/interpreter.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "core/platform.h"

namespace opgraft::pyop {
namespace {

struct PyObject;

/// The few functions of Python's C API that are needed to get the bridge.
struct PythonApi {
  int (*is_initialized)() = Find<int (*)()>("Py_IsInitialized");
  int (*gil_ensure)() = Find<int (*)()>("PyGILState_Ensure");
  void (*gil_release)(int) = Find<void (*)(int)>("PyGILState_Release");
  PyObject* (*import_module)(const char*) =
      Find<PyObject* (*)(const char*)>("PyImport_ImportModule");
  PyObject* (*get_attribute)(PyObject*, const char*) =
      Find<PyObject* (*)(PyObject*, const char*)>("PyObject_GetAttrString");
  void* (*capsule_pointer)(PyObject*, const char*) =
      Find<void* (*)(PyObject*, const char*)>("PyCapsule_GetPointer");
  void (*error_fetch)(PyObject**, PyObject**, PyObject**) =
      Find<void (*)(PyObject**, PyObject**, PyObject**)>("PyErr_Fetch");
  PyObject* (*to_string)(PyObject*) = Find<PyObject* (*)(PyObject*)>("PyObject_Str");
  const char* (*to_utf8)(PyObject*) = Find<const char* (*)(PyObject*)>("PyUnicode_AsUTF8");
  void (*decref)(PyObject*) = Find<void (*)(PyObject*)>("Py_DecRef");

  bool IsRunning() const { return is_initialized != nullptr && is_initialized() != 0; }

  /// Returns the text of the current Python error, and clears the error.
  std::string TakeErrorText() const {
    PyObject* parts[3] = {};
    error_fetch(&parts[0], &parts[1], &parts[2]);
    PyObject* text = parts[1] != nullptr ? to_string(parts[1]) : nullptr;
    const char* utf8 = text != nullptr ? to_utf8(text) : nullptr;
    std::string result = utf8 != nullptr ? utf8 : "unknown error";
    decref(text);
    for (PyObject* part : parts) decref(part);
    return result;
  }

 private:
  template <class Pointer>
  static Pointer Find(const char* name) {
    return reinterpret_cast<Pointer>(platform::FindSymbol(name));
  }
};

/// Nothing must be imported from the current folder, which `-c` and `-m` put first on the path.
constexpr char kAskPython[] =
    "import sys\n"
    "if sys.path[0] == '': del sys.path[0]\n"
    "from opgraft._base._embedding import main\n"
    "main()\n";

constexpr char kHowToChoose[] =
    "\nPython operators need a Python with a shared library, NumPy and the package opgraft. Fix: "
    "set OPGRAFT_PYTHON to the python command of such an environment (the default is 'python3' on "
    "the PATH)";

/// Asks the python command where its library and the bridge are, then loads them and starts Python.
Status StartInterpreter() {
  const char* chosen = std::getenv("OPGRAFT_PYTHON");
  const std::string command = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  platform::ProgramResult found;
  Status status = platform::RunProgram({command, "-c", kAskPython}, &found);
  if (!status.ok()) return Status::Unavailable(status.message() + kHowToChoose);
  if (found.output.find("No module named 'opgraft'") != std::string::npos) {
    return Status::Unavailable("'" + command +
                               "' has no package opgraft; install its wheel there (" + command +
                               " -m pip install opgraft-....whl)" + kHowToChoose);
  }
  if (found.exit_status != 0) {
    return Status::Unavailable("'" + command + "' cannot serve Python operators:\n" + found.output +
                               kHowToChoose);
  }
  std::vector<std::string> lines;
  for (std::size_t start = 0, end = 0; (end = found.output.find('\n', start)) != std::string::npos;
       start = end + 1) {
    lines.push_back(found.output.substr(start, end - start));
  }
  if (lines.size() < 3) {
    return Status::Unavailable("'" + command + "' printed unexpected output:\n" + found.output +
                               kHowToChoose);
  }
  // The last lines count: anything that the environment prints at its start comes before them.
  const std::string& program = lines[lines.size() - 3];
  const std::string& library = lines[lines.size() - 2];
  const std::string& bridge = lines[lines.size() - 1];
  void* handle = nullptr;
  // NumPy and other extension modules look for Python's functions among the global symbols.
  status = platform::LoadLibrary(library, /*is_global=*/true, &handle);
  if (!status.ok()) return status;
  status = platform::LoadLibrary(bridge, /*is_global=*/false, &handle);
  const bool is_mismatch = status.message().find("OPGRAFT_CORE_") != std::string::npos;
  if (!status.ok() && !is_mismatch) return status;
  void* start = status.ok() ? platform::FindSymbol(handle, kStartPythonSymbol) : nullptr;
  if (start == nullptr) {
    return Status::Unavailable(bridge +
                               " belongs to another version of Opgraft than this program's "
                               "libopgraft. Fix: install the same version in both places");
  }
  reinterpret_cast<StartPython>(start)(program.c_str(), &status);
  return status;
}

/// Takes the GIL with Python's own functions: ScopedGil, whose lock prevents forks while a thread
/// is being registered with Python, is behind the bridge. So a fork is not prevented while an
/// unregistered thread uses Opgraft for the first time. If the host has started Python, no lock
/// could help, because the fork handlers are only installed by the import. If we have started it,
/// the thread that does so is registered already.
Status ImportBridge(const PythonApi& python, const Bridge** bridge) {
  const int gil = python.gil_ensure();
  PyObject* module = python.import_module(kBridgeModule);
  PyObject* capsule = module != nullptr ? python.get_attribute(module, kBridgeAttribute) : nullptr;
  if (capsule != nullptr) {
    *bridge = static_cast<const Bridge*>(python.capsule_pointer(capsule, kBridgeCapsule));
  }
  Status status;
  if (*bridge == nullptr) {
    status = Status::Unavailable("this process's Python cannot import " +
                                 std::string(kBridgeModule) + ": " + python.TakeErrorText() +
                                 "\nFix: install the wheel of opgraft for this Python");
  } else if ((*bridge)->version != kBridgeVersion) {
    status = Status::Unavailable("libopgraft has version " + std::to_string(kBridgeVersion) +
                                 " of the bridge, the package opgraft of this process's Python "
                                 "has version " +
                                 std::to_string((*bridge)->version) +
                                 ". Fix: install the same release in both places");
    *bridge = nullptr;
  }
  python.decref(capsule);
  python.decref(module);
  python.gil_release(gil);
  return status;
}

}  // namespace

bool IsPythonRunning() { return PythonApi().IsRunning(); }

Status GetBridge(const Bridge** bridge) {
  static std::atomic<const Bridge*> ready = nullptr;
  *bridge = ready.load();
  if (*bridge != nullptr) return Status();
  // Python reports that it is running before its start is complete, so that if we start it, all
  // threads wait until that is done. is_ours is set first: a thread that sees Python running sees
  // is_ours as well.
  static std::mutex start_mutex;
  static std::atomic<bool> is_ours = false;
  if (!PythonApi().IsRunning() || is_ours) {
    const std::lock_guard lock(start_mutex);
    if (!PythonApi().IsRunning()) {
      is_ours = true;
      if (Status status = StartInterpreter(); !status.ok()) return status;
    }
  }
  // No lock here: a thread that holds the GIL would wait for one that waits for the GIL.
  Status status = ImportBridge(PythonApi(), bridge);
  if (status.ok()) ready = *bridge;
  return status;
}

Status BridgedOperators::Find(const model::OperatorQuery& query,
                              std::shared_ptr<const Schema>* schema) {
  const std::string_view module = query.module;
  if (!IsPythonRunning()) {
    if (module.empty()) return Status();
    if (!policy_.Allows(module)) return policy_.Refusal(query.who, module);
  }
  const Bridge* bridge = nullptr;
  if (Status status = GetBridge(&bridge); !status.ok()) {
    // A Python without our package has declared no operators.
    return module.empty() ? Status() : status;
  }
  return bridge->find_schema(query.who, query.full_name, module, policy_, schema);
}

}  // namespace opgraft::pyop
