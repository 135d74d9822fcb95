// The plan for opening a session of a model, which the C++ host or Python carries out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/platform.h"
#include "core/policy.h"
#include "model/kernel_probe.h"
#include "model/operator_source.h"
#include "model/prepare.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The session that is requested. Entries of lists are separated by commas.
struct PlanRequest {
  std::optional<std::string> path = {};   ///< of the model's file, which is mapped; else `bytes`
  std::string_view bytes = {};            ///< the model; needed only during the call
  std::string_view origin = "the model";  ///< what messages call `bytes`
  std::string_view folder = {};           ///< where the external data of `bytes` are, if known
  std::string_view runtime_version = {};  ///< "1.31.1"
  std::string_view allow = {};            ///< what the model may run, from the host
  std::string_view environment = {};      ///< the same, from the variable OPGRAFT_ALLOW
  std::string_view prefer = {};           ///< operators that packs run instead of the runtime
  /// Whether large weights of a model that must be changed may be references into its file, if this
  /// runtime can follow them; otherwise they are copied.
  bool may_refer = false;
  /// After the runtime has refused the model: finds its kernels, so that nodes without one can run
  /// in another type. nullptr if nothing is to be rescued.
  KernelProbe* probe = nullptr;
  /// Whether each rescued node rounds its result to its own type, as ONNX says, even if a neighbour
  /// takes it on in the wider type.
  bool exact = false;
};

struct SessionPlan {
  /// What the runtime is given, and what it will run.
  PreparedModel model;
  /// The name of the model in messages: its path in quotes, or "the model".
  std::string origin;
  /// The model's file; empty if the model was given as bytes.
  std::string path;
  /// Where the external data of `model.bytes` are; empty if that is not known.
  std::string folder;
  /// Identifies the file that was prepared. References into it are not valid for any other file.
  platform::FileIdentity identity;

  /// Why nodes cannot run that were not rescued, in a sentence or two; "" if there are none.
  std::string why_refused;

  /// Whether the runtime opens the file at `path`. Otherwise it gets `model.bytes` or, if that is
  /// empty, the bytes of the request.
  bool opens_file = false;
  /// Whether the runtime is told about `folder` while it creates the session.
  bool tells_folder = false;

  /// To be called after the session is created. Returns a ModelError if the file is no longer the
  /// one that `model.bytes` refers to.
  Status CheckUnchanged() const;
  /// Replaces the runtime's error with a better one if the model tells more about the cause.
  /// `given` is what the runtime was given; empty: the file.
  Status Explain(Status error, std::string_view given) const;

  /// Returns the error for a rescued model that the runtime refuses too, or that nothing could be
  /// done for: `error` is why it was refused.
  Status ExplainRescue(Status error) const;

  /// Returns the UnavailableError for a runtime that does not take a prepared model with external
  /// data in memory: if `model.needs_file`, the session cannot be created.
  static Status NeedsFile(std::string_view runtime_version);
};

/// Returns the operators that Python code has declared, under a policy that outlives them.
using DeclaredSource = std::function<std::unique_ptr<OperatorSource>(const Policy&)>;

/// Prepares a model for a session. Returns an error if a list is invalid, or the error of
/// `Prepare`. In that case `plan->model.opset_limit` is set if it is the reason.
Status MakePlan(const PlanRequest& request, const DeclaredSource& declared, SessionPlan* plan);

}  // namespace opgraft::model
