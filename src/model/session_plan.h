// What opening a session of a model takes: found out once, and carried out by the C++ host and by
// Python's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/platform.h"
#include "core/policy.h"
#include "model/operator_source.h"
#include "model/prepare.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// What a session is wanted of. Lists have their entries separated by commas.
struct PlanRequest {
  std::optional<std::string> path = {};   ///< of its file, which is not read whole; else `bytes`
  std::string_view bytes = {};            ///< the model; they must outlive the call alone
  std::string_view origin = "the model";  ///< what messages call `bytes`
  std::string_view folder = {};  ///< where the external data of `bytes` lies, if that is known
  std::string_view runtime_version = {};  ///< "1.31.1"
  std::string_view allow = {};            ///< what the model may run, as the host says
  std::string_view environment = {};      ///< and as the variable OPGRAFT_ALLOW says
  std::string_view prefer = {};           ///< operators that packs shall run instead of the runtime
  /// Large weights of a model that must be changed may be references into its file, where this
  /// runtime can follow them; else they are copied.
  bool may_refer = false;
};

struct SessionPlan {
  /// What the runtime is given, and what will run in it.
  PreparedModel model;
  /// What messages call the model: its path in quotes, or "the model".
  std::string origin;
  /// The model's file; empty where it came as bytes.
  std::string path;
  /// Where the external data of `model.bytes` lies; empty where that is not known.
  std::string folder;
  /// The file as it was prepared: references into it are right for no other.
  platform::FileIdentity identity;

  /// The runtime opens the file at `path`; else it is given `model.bytes`, or, where these are
  /// empty, the bytes of the request.
  bool opens_file = false;
  /// The runtime is told of `folder` while it makes the session.
  bool tells_folder = false;

  /// To be asked once the session is made. A ModelError where the file is another by now than the
  /// one that `model.bytes` refers to.
  Status CheckUnchanged() const;
  /// What the runtime said of the model, in words of ours where the model tells more. `given` is
  /// what the runtime was given; empty: the file.
  Status Explain(Status said, std::string_view given) const;

  /// The UnavailableError of a runtime that takes no prepared model with external data in memory:
  /// where `model.needs_file`, nothing can be opened.
  static Status NeedsFile(std::string_view runtime_version);
};

/// The operators that Python code has declared, under a policy that outlives them.
using DeclaredSource = std::function<std::unique_ptr<OperatorSource>(const Policy&)>;

/// Prepares a model for a session. An error is that of a list that is none, or as `Prepare` says;
/// `plan->model.opset_limit` is set then, where it is the reason.
Status MakePlan(const PlanRequest& request, const DeclaredSource& declared, SessionPlan* plan);

}  // namespace opgraft::model
