// The C interface behind opgraft/host.h.
#include "opgraft/host.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "adapter/calls.h"
#include "adapter/running.h"
#include "base/text.h"
#include "bridge/interpreter.h"
#include "core/packs.h"
#include "core/platform.h"
#include "core/shipped_packs.h"
#include "model/session_plan.h"
#include "opgraft/onnxruntime.h"
#include "runtime/cuda_session.h"
#include "runtime/pack_domains.h"
#include "runtime/registration.h"
#include "runtime/session_probe.h"
#include "workers/options.h"
#include "workers/pool.h"

namespace opgraft::ort {
namespace {

/// The folder of the external data of a model in memory; known to ONNX Runtime from 1.21.1 on.
constexpr char kFolderEntry[] = "session.model_external_initializers_file_folder_path";

/// "1" if rescued nodes are to round each result; see docs/rescue.md.
constexpr char kExactEntry[] = "opgraft.exact";

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

/// Loads a pack that comes with Opgraft if a session prefers one of its operators and no loaded
/// pack has this operator: a program's own pack may have operators of the same names.
Status LoadPreferred(std::string_view prefer) {
  for (const std::string& pack : ShippedPacksWith(prefer, Packs::OfThisProcess())) {
    if (Status status = Load(pack.c_str()); !status.ok()) return status;
  }
  return Status();
}

/// Loads the packs that a model was prepared for: those that come with Opgraft may not be loaded
/// yet.
Status LoadNeeded(const model::PreparedModel& prepared) {
  for (const auto& [full_name, pack] : prepared.native_operators) {
    if (Status status = Load(pack.c_str()); !status.ok()) return status;
  }
  return Status();
}

/// The sessions of CreateSession, so that their calls can be cancelled. A session that was released
/// stays in it until another one has its place. Their numbers are negative, since Python's are not.
class NumberedSessions {
 public:
  static NumberedSessions& OfThisProcess() {
    static auto* const sessions = new NumberedSessions;
    return *sessions;
  }
  /// Gives operators that this thread makes meanwhile to a new session.
  class Making {
   public:
    explicit Making(NumberedSessions* sessions)
        : sessions_(*sessions), before_(workers::ExchangeSession(sessions->Next())) {}
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;
    ~Making() { workers::ExchangeSession(before_); }
    void Made(const OrtSession* session) {
      const std::lock_guard lock(sessions_.mutex_);
      sessions_.numbers_[session] = workers::SessionInMaking();
    }

   private:
    NumberedSessions& sessions_;
    const std::int64_t before_;
  };
  std::int64_t Find(const OrtSession* session) {
    const std::lock_guard lock(mutex_);
    const auto found = numbers_.find(session);
    return found != numbers_.end() ? found->second : 0;
  }

 private:
  std::int64_t Next() {
    const std::lock_guard lock(mutex_);
    return --last_;
  }
  std::mutex mutex_;
  std::int64_t last_ = 0;
  std::map<const OrtSession*, std::int64_t> numbers_;
};

/// Creates the session as planned, with options of its own. `given` is the model in memory.
Status Carry(const Runtime& runtime, const OrtEnv* environment, const model::SessionPlan& plan,
             std::string_view given, OrtSessionOptions* options, OrtSession** session) {
  const OrtApi* const api = runtime.api;
  if (plan.tells_folder) {
    Status status =
        FromRuntime(api, AddSessionConfigEntry(api, options, kFolderEntry, plan.folder.c_str()));
    if (!status.ok()) return status;
  }
  NumberedSessions::Making making(&NumberedSessions::OfThisProcess());
  Status status = FromRuntime(
      api, plan.opens_file
               ? ort::CreateSession(api, environment, plan.path.c_str(), options, session)
               : ort::CreateSessionFromArray(api, environment, given.data(), given.size(), options,
                                             session));
  if (!status.ok()) return status;
  making.Made(*session);
  status = plan.CheckUnchanged();
  if (status.ok()) status = CheckOneCudaProvider(runtime, options, *session);
  if (!status.ok()) {
    ReleaseSession(api, *session);
    *session = nullptr;
  }
  return status;
}

/// Plans a session and creates it. `refused` is set if the runtime has refused the model.
Status Open(const Runtime& runtime, const OrtEnv* environment, const model::PlanRequest& request,
            const OrtSessionOptions* options, OrtSession** session, model::SessionPlan* plan,
            bool* refused) {
  const OrtApi* const api = runtime.api;
  Status status = model::MakePlan(
      request,
      [](const Policy& policy) { return std::make_unique<pyop::BridgedOperators>(policy); }, plan);
  if (status.ok() && plan->model.needs_file) {
    status = model::SessionPlan::NeedsFile(request.runtime_version);
  }
  if (status.ok()) status = LoadNeeded(plan->model);
  // The options are copied, so that the caller can use them for any number of sessions and
  // policies.
  OrtSessionOptions* own = nullptr;
  if (status.ok()) status = FromRuntime(api, CloneSessionOptions(api, options, &own));
  if (!status.ok()) return status;
  status = ort::Register(runtime, own, request.allow);
  const std::string_view given = plan->model.bytes.empty() ? request.bytes : plan->model.bytes;
  if (status.ok()) {
    status = Carry(runtime, environment, *plan, given, own, session);
    *refused = status.kind() == ErrorKind::kError;
  }
  ReleaseSessionOptions(api, own);
  return plan->Explain(std::move(status), given);
}

/// Opens a model that the runtime has refused with `error`, with its nodes in types that the
/// runtime has kernels for.
Status OpenRescued(const Runtime& runtime, const OrtEnv* environment, model::PlanRequest request,
                   const OrtSessionOptions* options, Status error, OrtSession** session) {
  SessionProbe probe(runtime.api, environment, options);
  if (!probe.status().ok()) return error;
  bool is_there = false;
  std::string exact;
  const Status read = ReadEntry(runtime.api, options, kExactEntry, &is_there, &exact);
  request.probe = &probe;
  request.exact = read.ok() && is_there && exact == "1";
  model::SessionPlan plan;
  bool refused = false;
  const Status status = Open(runtime, environment, request, options, session, &plan, &refused);
  if (status.ok()) return status;
  return plan.ExplainRescue(plan.model.rescues.empty() ? std::move(error) : status);
}

Status Create(const OrtApiBase* base, const OrtEnv* environment, model::PlanRequest request,
              const OrtSessionOptions* options, OrtSession** session) {
  Runtime runtime;
  if (Status status = Runtime::Find(base, &runtime); !status.ok()) return status;
  const std::string allowed_by_environment = AllowedByEnvironment();
  request.environment = allowed_by_environment;
  request.runtime_version = GetVersionString(base);
  request.may_refer = true;
  if (Status status = LoadPreferred(request.prefer); !status.ok()) return status;
  model::SessionPlan plan;
  bool refused = false;
  Status status = Open(runtime, environment, request, options, session, &plan, &refused);
  if (!refused) return status;
  return OpenRescued(runtime, environment, std::move(request), options, std::move(status), session);
}

/// Calls `body`, which returns a Status, inside a call from a program: no exception escapes.
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

/// A list of allowed modules from a program, which may pass nullptr.
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
    opgraft::model::PlanRequest request;
    if (path != nullptr) request.path = path;
    request.bytes = {static_cast<const char*>(model), size};
    request.allow = opgraft::ort::OrEmpty(allow);
    request.prefer = opgraft::ort::OrEmpty(prefer);
    return opgraft::ort::Create(runtime, environment, std::move(request), options, session);
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

int opgraft_isolate(const OrtApiBase* runtime, OrtSessionOptions* options, const char* isolation,
                    char** text) {
  return opgraft::ort::ToProgram(text, [&] {
    opgraft::ort::Runtime found;
    opgraft::workers::Options parsed;
    opgraft::Status status = opgraft::workers::Options::Parse(isolation, &parsed);
    if (status.ok()) status = opgraft::ort::Runtime::Find(runtime, &found);
    if (!status.ok()) return status;
    return opgraft::ort::FromRuntime(
        found.api, opgraft::ort::AddSessionConfigEntry(found.api, options,
                                                       opgraft::ort::kIsolationEntry, isolation));
  });
}

void opgraft_cancel(OrtSession* session) {
  const std::int64_t number = opgraft::ort::NumberedSessions::OfThisProcess().Find(session);
  if (number != 0) opgraft::workers::CancelCalls(number);
}

void opgraft_watch(const OpgraftWatcher* watcher) {
  opgraft::ort::watcher.store(watcher, std::memory_order_release);
}

void opgraft_free(char* text) { std::free(text); }

#pragma GCC visibility pop
