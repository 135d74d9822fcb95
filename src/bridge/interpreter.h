// Finds the Python of this process, or starts one, and gets the bridge from it.
#pragma once

#include <memory>
#include <string_view>

#include "bridge/bridge.h"
#include "core/policy.h"
#include "model/operator_source.h"
#include "opgraft/status.h"

namespace opgraft::pyop {

/// Returns the bridge. The first call starts Python if it is not running, in whatever thread that
/// is; Python is never stopped. An UnavailableError says what to install. Thread-safe.
Status GetBridge(const Bridge** bridge);

/// Whether this process has a Python, started by us or not.
bool IsPythonRunning();

/// The operators that this process's Python has declared, and those of modules that a model names,
/// under a policy that outlives this object. Python is only started for a module that is allowed.
class BridgedOperators final : public model::OperatorSource {
 public:
  explicit BridgedOperators(const Policy& policy) : policy_(policy) {}

  Status Find(const model::OperatorQuery& query, std::shared_ptr<const Schema>* schema) override;

 private:
  const Policy& policy_;
};

}  // namespace opgraft::pyop
