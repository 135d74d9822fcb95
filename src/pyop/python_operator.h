// A Python object made for a node, and the call of its method.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pyop/bridge.h"
#include "pyop/callable.h"

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

  using InputShape = std::optional<std::vector<std::int64_t>>;  // nullopt: absent

  /// What the shape rule said at its last call, which serves until other shapes come.
  struct Inferred {
    std::vector<InputShape> inputs;
    std::vector<DeclaredShape> outputs;
  };

  /// An output's array that the operator was given to write into; one of the arguments.
  struct OutArray {
    PyObject* array = nullptr;
  };

  explicit PythonOperator(const Spec& spec) : spec_(spec) {}

  Status ComputeWithGil(Call& call);
  Status MakeArguments(Call& call, Arguments* arguments) const;
  /// Sets inferred_ for inputs of these shapes.
  Status ApplyRule(std::span<const TensorView> inputs);
  /// Adds the arrays of the argument `out`, which lie in the runtime's memory, to the arguments.
  Status MakeOut(Call& call, const Inferred& inferred, std::vector<OutArray>* out,
                 Arguments* arguments) const;
  /// Calls Python with so many positional arguments, and what follows them as `out`.
  nanobind::object Invoke(std::size_t positional, Arguments* arguments) const;
  Status StoreOutputs(Call& call, PyObject* returned, const Inferred* inferred,
                      const std::vector<OutArray>& out) const;
  /// What came back for an output that was given as `out`.
  Status StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const;
  /// Against the model and, where given, the shape rule. `value` has the shape; nullptr where the
  /// shape is the rule's.
  Status CheckShape(std::size_t index, std::span<const std::int64_t> shape,
                    const Inferred* inferred, PyObject* value) const;
  /// `is_ours` where nobody else can reach `value`, so that it stays as it is without the GIL.
  Status StoreOutput(Call& call, std::size_t index, PyObject* value, bool is_ours,
                     const Inferred* inferred) const;
  /// Lets go of the arguments. False where the operator has kept some of them; they join kept_.
  bool Release(Arguments arguments);
  /// Whether the operator still holds an argument of an earlier call.
  bool HoldsArguments();

  const Spec spec_;
  PythonCallable callable_;
  std::shared_ptr<const Inferred> inferred_;  // guarded by the GIL, as is
  std::vector<nanobind::object> kept_;
};

}  // namespace opgraft::pyop
