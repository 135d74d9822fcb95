// Finds the Python of this process, or starts one, and gets the bridge to it.
#pragma once

#include <memory>
#include <string_view>

#include "core/policy.h"
#include "model/operator_source.h"
#include "opgraft/status.h"
#include "pyop/bridge.h"

namespace opgraft::pyop {

/// The bridge, once it is there; Python is started by the first call that needs it, in whatever
/// thread that is, and is never stopped. An UnavailableError says what to install. Thread-safe.
Status GetBridge(const Bridge** bridge);

/// Whether this process has a Python, started by us or not.
bool IsPythonRunning();

/// The operators that this process's Python has declared, or that modules which a model names do,
/// under a policy that outlives it. Python is started only for a module that is allowed.
class BridgedOperators final : public model::OperatorSource {
 public:
  explicit BridgedOperators(const Policy& policy) : policy_(policy) {}

  Status Find(const model::OperatorQuery& query, std::shared_ptr<const Schema>* schema) override;

 private:
  const Policy& policy_;
};

}  // namespace opgraft::pyop
