// A Python object made for a node, and the call of its method.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>
#include <vector>

#include "pyop/bridge.h"

namespace opgraft::pyop {

class PythonOperator final : public Operator {
 public:
  /// Bridge::create.
  static Status Create(const Spec& spec, const Policy& policy, std::unique_ptr<Operator>* made);

  PythonOperator(const PythonOperator&) = delete;
  PythonOperator& operator=(const PythonOperator&) = delete;
  ~PythonOperator() override;

  Status Compute(Call& call) noexcept override;

 private:
  /// The arguments of one call, as Python objects.
  using Arguments = std::vector<PyObject*>;

  explicit PythonOperator(const Spec& spec) : spec_(spec) {}

  Status FindClass(const Policy& policy, nanobind::object* found) const;
  /// Whether the class or function `object` is of a module that may be run.
  Status CheckHome(const Policy& policy, const nanobind::object& object) const;
  Status MakeObject(const Policy& policy);
  Status ComputeWithGil(Call& call);
  Status MakeArguments(Call& call, Arguments* arguments) const;
  Status StoreOutputs(Call& call, PyObject* returned) const;
  /// `is_ours` where nobody else can reach `value`, so that it stays as it is without the GIL.
  Status StoreOutput(Call& call, std::size_t index, PyObject* value, bool is_ours) const;
  /// Lets go of the arguments. False where the operator has kept some of them; they join kept_.
  bool Release(Arguments arguments);
  /// Whether the operator still holds an argument of an earlier call.
  bool HoldsArguments();

  const Spec spec_;
  nanobind::object compute_;  // the bound method: no lookup by name in a call
  bool copy_inputs_ = false;
  std::vector<nanobind::object> kept_;  // guarded by the GIL
};

}  // namespace opgraft::pyop
