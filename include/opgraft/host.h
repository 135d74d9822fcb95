// Python operators in a C++ program that uses ONNX Runtime's C API: link libopgraft.so, nothing of
// Python. docs/deploying.md has a whole program.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "opgraft/status.h"

struct OrtApiBase;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;

// The C interface below is what the library holds, so that any C++ compiler can use it. Each
// function returns an opgraft::ErrorKind, and for an error its text, to be given back to
// opgraft_free.
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
void opgraft_free(char* text);
}

namespace opgraft {

/// What a model may run, beside what the variable OPGRAFT_ALLOW lists.
struct Allowed {
  /// Python modules: exact names, or "package.*" for all modules below a package. And operators of
  /// torch beyond those that any model may run: "aten::name", or "aten::name.overload". And types
  /// and functions that stored estimators of scikit-learn hold: "module.Name".
  std::vector<std::string> modules = {};
  /// Modules to be imported first: the operators that they declare by @opgraft.op may be run.
  std::vector<std::string> imports = {};
  /// Operators of ONNX Runtime's own domains that packs shall run instead of it: "domain::Name", or
  /// a domain for all that packs have of it.
  std::vector<std::string> prefer = {};
};

namespace internal {

/// One text of several names, which hold no comma: one name must not become two.
inline Status Join(const std::string& what, const std::vector<std::string>& names,
                   std::string* list) {
  for (const std::string& name : names) {
    if (name.find_first_of(std::string(",\0", 2)) != std::string::npos) {
      return Status::Error(what + ": '" + name +
                           "' is no name: it has a comma or a zero byte in it. Fix: one entry of "
                           "the list for each name");
    }
    *list += (list->empty() ? "" : ",") + name;
  }
  return Status();
}

/// A path goes to the library as a text that ends at its first zero byte.
inline Status CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return Status();
  return Status::Error("'" + path + "' is no path: it has a zero byte in it");
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

/// What the C interface takes for what a model may run. Imports modules first.
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

/// Loads a pack, a library of operators that `opgraft build` has made, for good: sessions that are
/// made from now on find them. May be called from any thread; again for the same pack it changes
/// nothing.
inline Status Load(const std::string& path) {
  if (Status status = internal::CheckPath(path); !status.ok()) return status;
  char* text = nullptr;
  const int kind = opgraft_load(path.c_str(), &text);
  return internal::TakeStatus(kind, text);
}

/// Opens the model at `path`, prepared for this runtime, in a session that runs its Python
/// operators. `runtime` is OrtGetApiBase(); `options` stay as they are and may serve other
/// sessions. The session is the caller's, to be run and released by ONNX Runtime's own functions.
/// May be called from any thread; the first session with a Python operator starts Python.
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

/// The same for a model in memory, which need not outlive the call.
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

/// Has sessions with these options run on a GPU what has a kernel for one, with ONNX Runtime 1.24
/// and newer; the rest stays on the CPU. `gpu` is its number among those that CUDA sees. To be
/// called before the options are used, once for them. An UnavailableError says why there is no GPU:
/// the options are as they were then, and the program may go on with the CPU.
///
/// A run is over when its work is done, unless its OrtRunOptions name a stream of CUDA's, by the
/// entry "opgraft.cuda.stream" with its address as a decimal number: then it is over when all its
/// work is on that stream.
inline Status UseCuda(const OrtApiBase* runtime, OrtEnv* environment, OrtSessionOptions* options,
                      int gpu = 0) {
  char* text = nullptr;
  const int kind = opgraft_use_cuda(runtime, environment, options, gpu, &text);
  return internal::TakeStatus(kind, text);
}

/// For a program that makes the session itself, from a file that `opgraft prepare` has written:
/// registers Opgraft's operators with `options`.
inline Status Register(const OrtApiBase* runtime, OrtSessionOptions* options,
                       const Allowed& allowed) {
  internal::Lists lists;
  if (Status status = lists.Make(allowed); !status.ok()) return status;
  char* text = nullptr;
  return internal::TakeStatus(opgraft_register(runtime, options, lists.allow.c_str(), &text), text);
}

}  // namespace opgraft
