// The C interface behind opgraft/host.h.
#include "opgraft/host.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string_view>

#include "core/platform.h"
#include "core/text.h"
#include "model/prepare.h"
#include "opgraft/onnxruntime.h"
#include "ort/calls.h"
#include "ort/registration.h"
#include "pyop/interpreter.h"

namespace opgraft::ort {
namespace {

/// Tells a runtime from 1.21.1 on where the external data of a model in memory lies.
constexpr char kFolderEntry[] = "session.model_external_initializers_file_folder_path";

Status CreateFrom(const OrtApi* api, const OrtEnv* environment, const char* path,
                  std::string_view model, const model::PreparedModel& prepared,
                  OrtSessionOptions* options, OrtSession** session) {
  if (prepared.bytes.empty() && path != nullptr) {
    return FromRuntime(api, ort::CreateSession(api, environment, path, options, session));
  }
  if (path != nullptr && prepared.needs_file) {
    return Status::Unavailable(
        "a model with external data that has to be prepared needs ONNX Runtime 1.21.1 or newer. "
        "Write it into the folder of its data first: opgraft prepare MODEL PREPARED");
  }
  if (path != nullptr && prepared.has_external_data) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    Status status =
        FromRuntime(api, AddSessionConfigEntry(api, options, kFolderEntry, folder.c_str()));
    if (!status.ok()) return status;
  }
  const std::string_view bytes = prepared.bytes.empty() ? model : prepared.bytes;
  return FromRuntime(api, ort::CreateSessionFromArray(api, environment, bytes.data(), bytes.size(),
                                                      options, session));
}

Status Create(const OrtApiBase* base, const OrtEnv* environment, const char* path,
              std::string_view model, const OrtSessionOptions* options, std::string_view allow,
              OrtSession** session) {
  Runtime runtime;
  if (Status status = Runtime::Find(base, &runtime); !status.ok()) return status;
  const OrtApi* const api = runtime.api;
  std::string contents;
  if (path != nullptr) {
    Status status = platform::ReadFile(path, &contents);
    if (!status.ok()) return Status::Model(status.message());
    model = contents;
  }
  model::PreparedModel prepared;
  Policy policy;
  if (Status status = ParsePolicy(allow, &policy); !status.ok()) return status;
  pyop::BridgedOperators operators(policy);
  const std::string origin = path != nullptr ? "'" + std::string(path) + "'" : "the model";
  Status status = model::Prepare(model, origin, GetVersionString(base), operators, &prepared);
  if (!status.ok()) return status;

  // A copy of the options, so that the caller's serve any number of sessions and policies.
  OrtSessionOptions* own = nullptr;
  status = FromRuntime(api, CloneSessionOptions(api, options, &own));
  if (!status.ok()) return status;
  status = ort::Register(runtime, own, allow);
  if (status.ok()) {
    status = CreateFrom(api, environment, path, model, prepared, own, session);
  }
  ReleaseSessionOptions(api, own);
  return status;
}

/// Calls `body`, which returns a Status, where a program called us: no exception gets past.
template <class Body>
int ToProgram(char** text, Body body) noexcept {
  *text = nullptr;
  try {
    const Status status = body();
    if (!status.ok()) *text = strdup(Readable(status.message()).c_str());
    return static_cast<int>(status.kind());
  } catch (const std::exception& exception) {
    *text = strdup(exception.what());
    return static_cast<int>(ErrorKind::kError);
  }
}

/// A list of allowed modules from a program, which may give none.
std::string_view OrEmpty(const char* allow) { return allow != nullptr ? allow : ""; }

}  // namespace
}  // namespace opgraft::ort

#pragma GCC visibility push(default)

int opgraft_register(const OrtApiBase* runtime, OrtSessionOptions* options, const char* allow,
                     char** text) {
  return opgraft::ort::ToProgram(text, [&] {
    opgraft::ort::Runtime found;
    opgraft::Status status = opgraft::ort::Runtime::Find(runtime, &found);
    return status.ok() ? opgraft::ort::Register(found, options, opgraft::ort::OrEmpty(allow))
                       : status;
  });
}

int opgraft_create_session(const OrtApiBase* runtime, const OrtEnv* environment, const char* path,
                           const void* model, std::size_t size, const OrtSessionOptions* options,
                           const char* allow, OrtSession** session, char** text) {
  return opgraft::ort::ToProgram(text, [&] {
    return opgraft::ort::Create(runtime, environment, path, {static_cast<const char*>(model), size},
                                options, allow, session);
  });
}

int opgraft_import(const char* module, char** text) {
  return opgraft::ort::ToProgram(text, [&] {
    const opgraft::pyop::Bridge* bridge = nullptr;
    opgraft::Status status = opgraft::pyop::GetBridge(&bridge);
    return status.ok() ? bridge->import_module(module) : status;
  });
}

void opgraft_free(char* text) { std::free(text); }

#pragma GCC visibility pop
