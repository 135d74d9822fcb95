// A Python object made for a node, and the call of its method.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <vector>

#include "pyop/bridge.h"
#include "pyop/callable.h"
#include "pyop/invocation.h"
#include "pyop/session_number.h"
#include "pyop/shape_rule.h"

namespace opgraft::pyop {

class PythonOperator final : public Operator {
 public:
  /// Bridge::create.
  static Status Create(const Spec& spec, const Policy& policy, const Gpu* gpu,
                       std::unique_ptr<Operator>* made);

  PythonOperator(const PythonOperator&) = delete;
  PythonOperator& operator=(const PythonOperator&) = delete;
  ~PythonOperator() override;

  Status Compute(Call& call) noexcept override;

 private:
  explicit PythonOperator(const Spec& spec) : spec_(spec) {}

  Status ComputeWithGil(Call& call);
  Status MakeArguments(Call& call, Arguments* arguments) const;
  /// Lets go of the arguments. False where the operator has kept some of them; they join kept_.
  bool Release(Arguments arguments);
  /// Whether the operator still holds an argument of an earlier call.
  bool HoldsArguments();

  const Spec spec_;
  const std::int64_t session_ = session_in_making;
  PythonCallable callable_;
  std::optional<ShapeRule> rule_;
  std::vector<nanobind::object> kept_;  // guarded by the GIL
};

}  // namespace opgraft::pyop
