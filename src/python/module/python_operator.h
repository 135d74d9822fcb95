// Makes a Python object for a node, and calls its method.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <utility>

#include "bridge/bridge.h"
#include "bridge/session_number.h"
#include "python/call/callable.h"
#include "python/call/exit_gate.h"
#include "python/call/gil.h"
#include "python/call/invocation.h"
#include "python/call/shape_rule.h"

namespace opgraft::pyop {

/// Bridge::create.
Status CreateOperator(const Spec& spec, const Policy& policy, const Gpu* gpu,
                      std::unique_ptr<Operator>* made);

/// `Place` is where the arrays are. It makes the `Turn` of a call (see CallFunction) and keeps what
/// outlives one call, guarded by the GIL. Find() prepares it; Forget() drops its Python objects
/// without releasing them, for when Python has ended.
template <class Place>
class PythonOperator final : public Operator {
 public:
  template <class... Where>
  static Status Create(const Spec& spec, const Policy& policy, std::unique_ptr<Operator>* made,
                       const Where&... where) {
    std::unique_ptr<PythonOperator> created(new PythonOperator(spec, where...));
    Status status = WithGil(spec, [&] {
      Status found = MakeCallable(spec, policy, &created->callable_);
      nanobind::object& rule = created->callable_.rule;
      if (rule.is_valid()) created->rule_.emplace(created->spec_, std::move(rule));
      return found.ok() ? created->place_.Find(spec) : found;
    });
    if (status.ok()) *made = std::move(created);
    return status;
  }

  PythonOperator(const PythonOperator&) = delete;
  PythonOperator& operator=(const PythonOperator&) = delete;
  ~PythonOperator() override {
    if (Py_IsInitialized() == 0) {  // Python ended before the session: nothing can be released
      callable_.compute.release();
      if (rule_) rule_->Forget();
      place_.Forget();
      return;
    }
    const ScopedGil gil;
    callable_ = PythonCallable();
    rule_.reset();
    place_.Clear();
  }

  Traits traits() const override { return callable_.traits; }

  Status Compute(Call& call) noexcept override {
    const OperatorCall operator_call;
    const InOperatorOf in_operator(session_);
    return WithGil(spec_, [&] {
      typename Place::Turn turn(place_, spec_, callable_, call);
      return CallFunction(spec_, callable_, rule_ ? &*rule_ : nullptr, turn);
    });
  }

 private:
  template <class... Where>
  explicit PythonOperator(const Spec& spec, const Where&... where)
      : spec_(spec), place_(where...) {}

  const Spec spec_;
  const std::int64_t session_ = session_in_making;
  PythonCallable callable_;
  std::optional<ShapeRule> rule_;
  Place place_;
};

}  // namespace opgraft::pyop
