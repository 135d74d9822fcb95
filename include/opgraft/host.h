// Runs Python operators in a C++ program that uses ONNX Runtime's C API. Link with libopgraft.so;
// no part of Python is needed for that. docs/deploying.md has a complete program.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <vector>

#include "opgraft/status.h"

struct OrtApiBase;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;

// The library exports a C interface, so that any C++ compiler can use it. Each function returns an
// opgraft::ErrorKind and, for an error, its text, which the caller frees with opgraft_free.
extern "C" {
int opgraft_register(const OrtApiBase* runtime, OrtSessionOptions* options, const char* allow,
                     char** text);
int opgraft_create_session(const OrtApiBase* runtime, const OrtEnv* environment, const char* path,
                           const void* model, std::size_t size, const OrtSessionOptions* options,
                           const char* allow, const char* prefer, OrtSession** session,
                           char** text);
int opgraft_load(const char* path, char** text);
int opgraft_use_cuda(const OrtApiBase* runtime, OrtEnv* environment, OrtSessionOptions* options,
                     int gpu, char** text);
int opgraft_import(const char* module, char** text);
int opgraft_isolate(const OrtApiBase* runtime, OrtSessionOptions* options, const char* isolation,
                    char** text);
void opgraft_cancel(OrtSession* session);
void opgraft_free(char* text);
}

namespace opgraft {

/// What a model may run, in addition to what the environment variable OPGRAFT_ALLOW lists.
struct Allowed {
  /// Python modules: exact names, or "package.*" for all modules below a package. Also operators of
  /// torch beyond those that every model may run: "aten::name" or "aten::name.overload". Also types
  /// and functions in stored estimators of scikit-learn: "module.Name".
  std::vector<std::string> modules = {};
  /// Modules to import first. The operators that they declare with @opgraft.op may run.
  std::vector<std::string> imports = {};
  /// Operators of ONNX Runtime's own domains that packs run instead of the runtime: "domain::Name",
  /// or a domain for all operators that packs have in it.
  std::vector<std::string> prefer = {};
};

namespace internal {

/// Joins names into one text. Refuses commas, so that one name cannot become two.
inline Status Join(const std::string& what, const std::vector<std::string>& names,
                   std::string* list) {
  for (const std::string& name : names) {
    if (name.find_first_of(std::string(",\0", 2)) != std::string::npos) {
      return Status::Error(what + ": '" + name +
                           "' is not a name: it contains a comma or a zero byte. Fix: one entry of "
                           "the list for each name");
    }
    *list += (list->empty() ? "" : ",") + name;
  }
  return Status();
}

/// The library takes a path as a text that ends at its first zero byte.
inline Status CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return Status();
  return Status::Error("'" + path + "' is not a path: it contains a zero byte");
}

inline Status TakeStatus(int kind, char* text) {
  if (kind == 0) return Status();
  Status status(static_cast<ErrorKind>(kind), text != nullptr ? text : "");
  opgraft_free(text);
  return status;
}

inline Status Import(const std::vector<std::string>& modules) {
  std::string ignored;
  if (Status status = Join("imports", modules, &ignored); !status.ok()) return status;
  for (const std::string& module : modules) {
    char* text = nullptr;
    const int kind = opgraft_import(module.c_str(), &text);
    if (Status status = TakeStatus(kind, text); !status.ok()) return status;
  }
  return Status();
}

/// The lists in the form that the C interface takes. Make also imports the modules.
struct Lists {
  std::string allow;
  std::string prefer;

  Status Make(const Allowed& allowed) {
    Status status = Join("modules", allowed.modules, &allow);
    if (status.ok()) status = Join("prefer", allowed.prefer, &prefer);
    return status.ok() ? Import(allowed.imports) : status;
  }
};

}  // namespace internal

/// Worker processes that run the Python operators of sessions: a crash or a hang of an operator is
/// an error of its call. The program needs no libpython then. docs/isolation.md describes them.
struct Isolation {
  /// The most processes that a session keeps busy. They are shared by all sessions.
  int workers = 1;
  /// The python command; empty: OPGRAFT_PYTHON, or python3.
  std::string python = {};
  /// Seconds for one call; 0: no limit. The worker of a call that takes longer is ended.
  double timeout = 0;
  /// Bytes of address space of a worker, and seconds of processor time for one call; 0: no limit.
  unsigned long long memory_limit = 0;
  unsigned long long cpu_limit = 0;
  /// How often a call is repeated whose worker has ended, for operators that are declared pure.
  int retries = 0;
  /// Whether workers have no network, and can write files only below the paths in `writable`. Linux
  /// with Landlock; an UnavailableError elsewhere.
  bool sandbox = false;
  std::vector<std::string> writable = {};
  /// Variables of the environment that workers get in addition to the usual ones.
  std::vector<std::string> environment = {};
};

/// Loads a pack, a library of operators made by `opgraft build`, for the rest of the process.
/// Sessions created afterwards find its operators. May be called from any thread; loading the same
/// pack again does nothing.
inline Status Load(const std::string& path) {
  if (Status status = internal::CheckPath(path); !status.ok()) return status;
  char* text = nullptr;
  const int kind = opgraft_load(path.c_str(), &text);
  return internal::TakeStatus(kind, text);
}

/// Opens the model at `path` in a session that runs its Python operators. The model is prepared for
/// this runtime in memory. `runtime` is OrtGetApiBase(). `options` are not changed and may be used
/// for other sessions. The caller owns the session, and runs and releases it with ONNX Runtime's
/// own functions. May be called from any thread; the first session with a Python operator starts
/// Python.
inline Status CreateSession(const OrtApiBase* runtime, const OrtEnv* environment,
                            const std::string& path, const OrtSessionOptions* options,
                            const Allowed& allowed, OrtSession** session) {
  if (Status status = internal::CheckPath(path); !status.ok()) return status;
  internal::Lists lists;
  if (Status status = lists.Make(allowed); !status.ok()) return status;
  char* text = nullptr;
  const int kind =
      opgraft_create_session(runtime, environment, path.c_str(), nullptr, 0, options,
                             lists.allow.c_str(), lists.prefer.c_str(), session, &text);
  return internal::TakeStatus(kind, text);
}

/// Like CreateSession, for a model in memory, which need not outlive the call.
inline Status CreateSessionFromArray(const OrtApiBase* runtime, const OrtEnv* environment,
                                     const void* model, std::size_t size,
                                     const OrtSessionOptions* options, const Allowed& allowed,
                                     OrtSession** session) {
  internal::Lists lists;
  if (Status status = lists.Make(allowed); !status.ok()) return status;
  char* text = nullptr;
  const int kind =
      opgraft_create_session(runtime, environment, nullptr, model, size, options,
                             lists.allow.c_str(), lists.prefer.c_str(), session, &text);
  return internal::TakeStatus(kind, text);
}

/// Lets sessions with these options run nodes on a GPU if there is a CUDA kernel for them; the
/// other nodes stay on the CPU. Needs ONNX Runtime 1.24 or newer. `gpu` is the number of the GPU
/// among those that CUDA sees. Call it once, before the options are used. If there is no usable
/// GPU, an UnavailableError says why; the options are then unchanged, and the program may go on
/// with the CPU.
///
/// A run returns when its work is done, unless its OrtRunOptions name a CUDA stream: the entry
/// "opgraft.cuda.stream" with its address as a decimal number. Such a run returns when all its work
/// has been put on that stream.
inline Status UseCuda(const OrtApiBase* runtime, OrtEnv* environment, OrtSessionOptions* options,
                      int gpu = 0) {
  char* text = nullptr;
  const int kind = opgraft_use_cuda(runtime, environment, options, gpu, &text);
  return internal::TakeStatus(kind, text);
}

/// Lets sessions with these options run their Python operators in worker processes. Call it once,
/// before the options are used. A worker is started when a session needs one; all end with this
/// process.
inline Status Isolate(const OrtApiBase* runtime, OrtSessionOptions* options,
                      const Isolation& isolation) {
  // std::to_string would write the comma of the program's locale.
  char seconds[64];
  char* const end = std::to_chars(seconds, seconds + sizeof(seconds), isolation.timeout).ptr;
  std::string text = "process;workers=" + std::to_string(isolation.workers) +
                     ";timeout=" + std::string(static_cast<char*>(seconds), end) +
                     ";memory_limit=" + std::to_string(isolation.memory_limit) +
                     ";cpu_limit=" + std::to_string(isolation.cpu_limit) +
                     ";retries=" + std::to_string(isolation.retries);
  std::string names;
  if (Status status = internal::Join("environment", isolation.environment, &names); !status.ok()) {
    return status;
  }
  std::string paths;
  for (const std::string& path : isolation.writable) {
    if (path.find(':') != std::string::npos) {
      return Status::Error("isolation: a writable path cannot contain ':'");
    }
    paths += (paths.empty() ? "" : ":") + path;
  }
  if (isolation.sandbox) text += ";sandbox=1";
  if (!paths.empty()) text += ";writable=" + paths;
  if ((names + isolation.python + paths).find_first_of(std::string(";\0", 2)) !=
      std::string::npos) {
    return Status::Error(
        "isolation: python, writable and environment cannot contain ';' or a zero byte");
  }
  if (!isolation.python.empty()) text += ";python=" + isolation.python;
  if (!names.empty()) text += ";environment=" + names;
  char* error = nullptr;
  const int kind = opgraft_isolate(runtime, options, text.c_str(), &error);
  return internal::TakeStatus(kind, error);
}

/// Ends the calls of a session of CreateSession that are under way in worker processes: its runs
/// fail with a PyOpError. May be called from any thread.
inline void Cancel(OrtSession* session) { opgraft_cancel(session); }

/// Registers Opgraft's operators with `options`, for a program that creates the session itself from
/// a file written by `opgraft prepare`.
inline Status Register(const OrtApiBase* runtime, OrtSessionOptions* options,
                       const Allowed& allowed) {
  internal::Lists lists;
  if (Status status = lists.Make(allowed); !status.ok()) return status;
  char* text = nullptr;
  const int kind = opgraft_register(runtime, options, lists.allow.c_str(), &text);
  return internal::TakeStatus(kind, text);
}

}  // namespace opgraft
