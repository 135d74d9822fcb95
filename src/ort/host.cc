// The C interface behind opgraft/host.h.
#include "opgraft/host.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "core/packs.h"
#include "core/platform.h"
#include "core/shipped_packs.h"
#include "core/text.h"
#include "model/explain.h"
#include "model/pack_operators.h"
#include "model/prepare.h"
#include "model/prepare_file.h"
#include "opgraft/onnxruntime.h"
#include "ort/calls.h"
#include "ort/cuda_session.h"
#include "ort/refusal.h"
#include "ort/registration.h"
#include "ort/running.h"
#include "pyop/interpreter.h"

namespace opgraft::ort {
namespace {

/// Tells a runtime from 1.21.1 on where the external data of a model in memory lies.
constexpr char kFolderEntry[] = "session.model_external_initializers_file_folder_path";

/// Loads a pack, unless Python code of this process has declared one of its operators.
Status Load(const char* path) {
  if (path == nullptr) return Status::Error("opgraft_load: no pack is given");
  return Packs::OfThisProcess().Load(path, [](std::string_view full_name) -> std::string {
    Policy none;
    std::shared_ptr<const Schema> schema;
    pyop::BridgedOperators declared(none);
    if (!declared.Find({"", full_name}, &schema).ok() || schema == nullptr) return "";
    return "the Python module '" + schema->module + "'";
  });
}

/// A pack that comes with Opgraft is loaded when a session prefers an operator of it that no pack
/// has yet: a program's own pack may have operators of the same names.
Status LoadPreferred(std::string_view prefer) {
  for (const std::string& pack : ShippedPacksWith(prefer, Packs::OfThisProcess())) {
    if (Status status = Load(pack.c_str()); !status.ok()) return status;
  }
  return Status();
}

/// Loads the packs that a model was prepared for: those that come with Opgraft are not yet.
Status LoadNeeded(const model::PreparedModel& prepared) {
  for (const auto& [full_name, pack] : prepared.native_operators) {
    if (Status status = Load(pack.c_str()); !status.ok()) return status;
  }
  return Status();
}

/// Makes the session from what a file was prepared to be.
Status CreateFrom(const OrtApi* api, const OrtEnv* environment, const model::PreparedFile& file,
                  OrtSessionOptions* options, OrtSession** session) {
  const model::PreparedModel& model = file.model;
  if (model.bytes.empty()) {
    return FromRuntime(api,
                       ort::CreateSession(api, environment, file.path.c_str(), options, session));
  }
  if (model.needs_file) {
    return Status::Unavailable(
        "a model with external data that has to be prepared needs ONNX Runtime 1.21.1 or newer. "
        "Write it into the folder of its data first: opgraft prepare MODEL PREPARED");
  }
  if (model.has_external_data || model.refers_to_original) {
    Status status =
        FromRuntime(api, AddSessionConfigEntry(api, options, kFolderEntry, file.folder.c_str()));
    if (!status.ok()) return status;
  }
  Status status =
      FromRuntime(api, ort::CreateSessionFromArray(api, environment, model.bytes.data(),
                                                   model.bytes.size(), options, session));
  if (!status.ok()) return status;
  status = file.CheckUnchanged();
  if (!status.ok()) {
    ReleaseSession(api, *session);
    *session = nullptr;
  }
  return status;
}

/// What the runtime said of a model that it did not take, in words of ours where the model tells.
Status Explained(Status status, const model::PreparedFile& file, std::string_view in_memory) {
  if (status.ok() || status.kind() != ErrorKind::kError) return status;
  platform::MappedFile original;
  const bool is_file = in_memory.data() == nullptr;
  std::string_view model = is_file ? std::string_view(file.model.bytes) : in_memory;
  if (model.empty() && original.Open(file.path).ok()) model = original.contents();
  const std::string origin = is_file ? "'" + file.path + "'" : "the model";
  const std::string why = model::Explain(model, origin, file.folder, status.message());
  return why.empty() ? ToRefusal(std::move(status)) : Status::Model(why);
}

Status Create(const OrtApiBase* base, const OrtEnv* environment, const char* path,
              std::string_view model, const OrtSessionOptions* options, std::string_view allow,
              std::string_view prefer, OrtSession** session) {
  Runtime runtime;
  if (Status status = Runtime::Find(base, &runtime); !status.ok()) return status;
  const OrtApi* const api = runtime.api;
  Policy policy;
  if (Status status = ParsePolicy(allow, &policy); !status.ok()) return status;
  const Packs& packs = Packs::OfThisProcess();
  model::Preference preference;
  if (Status status = LoadPreferred(prefer); !status.ok()) return status;
  if (Status status = model::Preference::Parse(prefer, packs, &preference); !status.ok()) {
    return status;
  }
  pyop::BridgedOperators declared(policy);
  model::PackOperators operators(packs, preference, declared);
  const char* const version = GetVersionString(base);
  model::PreparedFile file;
  model::PreparedModel in_memory;
  Status status = path != nullptr
                      ? model::PrepareFile(path, version, operators, true, &file)
                      : model::Prepare(model, "the model", version, operators, &in_memory);
  if (!status.ok()) return status;

  status = LoadNeeded(path != nullptr ? file.model : in_memory);
  if (!status.ok()) return status;

  // A copy of the options, so that the caller's serve any number of sessions and policies.
  OrtSessionOptions* own = nullptr;
  status = FromRuntime(api, CloneSessionOptions(api, options, &own));
  if (!status.ok()) return status;
  status = ort::Register(runtime, own, allow);
  std::string_view bytes;
  if (path == nullptr) bytes = in_memory.bytes.empty() ? model : in_memory.bytes;
  if (status.ok() && path != nullptr) {
    status = CreateFrom(api, environment, file, own, session);
  } else if (status.ok()) {
    status = FromRuntime(api, ort::CreateSessionFromArray(api, environment, bytes.data(),
                                                          bytes.size(), own, session));
  }
  ReleaseSessionOptions(api, own);
  return Explained(std::move(status), file, bytes);
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
                           const char* allow, const char* prefer, OrtSession** session,
                           char** text) {
  return opgraft::ort::ToProgram(text, [&] {
    return opgraft::ort::Create(runtime, environment, path, {static_cast<const char*>(model), size},
                                options, opgraft::ort::OrEmpty(allow),
                                opgraft::ort::OrEmpty(prefer), session);
  });
}

int opgraft_use_cuda(const OrtApiBase* runtime, OrtEnv* environment, OrtSessionOptions* options,
                     int gpu, char** text) {
  return opgraft::ort::ToProgram(
      text, [&] { return opgraft::ort::UseCuda(runtime, environment, options, gpu); });
}

int opgraft_load(const char* path, char** text) {
  return opgraft::ort::ToProgram(text, [&] { return opgraft::ort::Load(path); });
}

int opgraft_import(const char* module, char** text) {
  return opgraft::ort::ToProgram(text, [&] {
    if (module == nullptr) return opgraft::Status::Error("opgraft_import: no module is given");
    const opgraft::pyop::Bridge* bridge = nullptr;
    opgraft::Status status = opgraft::pyop::GetBridge(&bridge);
    return status.ok() ? bridge->import_module(module) : status;
  });
}

void opgraft_watch(const OpgraftWatcher* watcher) {
  opgraft::ort::watcher.store(watcher, std::memory_order_release);
}

void opgraft_free(char* text) { std::free(text); }

#pragma GCC visibility pop
