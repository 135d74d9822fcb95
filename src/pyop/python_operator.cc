// Making the object, calling its method, and checking all that comes back.
#include "pyop/python_operator.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/element_type.h"
#include "pyop/arrays.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/gil.h"
#include "pyop/gpu_operator.h"
#include "pyop/numpy_outputs.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// How to keep an array, for messages.
constexpr char kHowToCopy[] = "array.copy()";

/// Makes arrays of the input's type possible, or says why they are not.
Status FindInputType(const TensorView& input) {
  const ElementType* const type = FindElementType(input.element_type);
  if (type != nullptr && type->is_carried) return FindArrays(input.element_type);
  return Status::Model("it is " + ElementTypeName(input.element_type) +
                       ", which a Python operator cannot take");
}

}  // namespace

Status PythonOperator::Create(const Spec& spec, const Policy& policy, const Gpu* gpu,
                              std::unique_ptr<Operator>* made) {
  if (gpu != nullptr) return GpuOperator::Create(spec, policy, *gpu, made);
  std::unique_ptr<PythonOperator> created(new PythonOperator(spec));
  Status status = WithGil(spec, [&] {
    Status found = MakeCallable(spec, policy, &created->callable_);
    nb::object& rule = created->callable_.rule;
    if (rule.is_valid()) created->rule_.emplace(created->spec_, std::move(rule));
    return found;
  });
  if (status.ok()) *made = std::move(created);
  return status;
}

PythonOperator::~PythonOperator() {
  if (Py_IsInitialized() == 0) {  // Python is gone before the session: there is nothing to release
    callable_.compute.release();
    if (rule_) rule_->Forget();
    for (nb::object& kept : kept_) kept.release();
    return;
  }
  const ScopedGil gil;
  callable_ = PythonCallable();
  rule_.reset();
  kept_.clear();
}

Status PythonOperator::Compute(Call& call) noexcept {
  const OperatorCall operator_call;
  const InOperatorOf in_operator(session_);
  return WithGil(spec_, [&] { return ComputeWithGil(call); });
}

Status PythonOperator::ComputeWithGil(Call& call) {
  if (HoldsArguments()) return StillKeptError(spec_, callable_, kHowToCopy);
  std::shared_ptr<const InferredShapes> inferred;
  if (rule_) {
    if (Status status = rule_->Apply(call.inputs(), &inferred); !status.ok()) return status;
  }
  Arguments arguments;
  Status status = MakeArguments(call, &arguments);
  if (!status.ok()) return status;
  const std::size_t positional = arguments.size() - 1;
  NumPyOutputs outputs(spec_, call, inferred.get(), /*keep_frames=*/callable_.copy_inputs);
  if (callable_.takes_out) {
    status = outputs.MakeOut(&arguments);
    if (!status.ok()) {
      Release(std::move(arguments));
      return status;
    }
  }
  nb::object returned = Invoke(callable_, positional, &arguments);
  if (!returned.is_valid()) {
    const Failure failure(/*keep_frames=*/callable_.copy_inputs);
    // An exception that holds an argument is not kept: it would outlive the memory.
    const bool is_released = Release(std::move(arguments));
    return failure.ToStatus(spec_.Who() + ": " + spec_.Callee(), is_released);
  }
  status = outputs.Store(returned.ptr(), std::span(arguments).subspan(positional + 1));
  returned.reset();
  if (!Release(std::move(arguments)) && status.ok()) {
    return KeptError(spec_, callable_, kHowToCopy);
  }
  return status;
}

Status PythonOperator::MakeArguments(Call& call, Arguments* arguments) const {
  arguments->reserve(call.inputs().size() + 1);
  arguments->push_back(nullptr);
  for (const TensorView& input : call.inputs()) {
    PyObject* argument = nullptr;
    Status status;
    const bool is_there = input.data != nullptr;
    if (is_there && !HasArrays(input.element_type)) status = FindInputType(input);
    if (!is_there) {
      argument = Py_NewRef(Py_None);
    } else if (!status.ok()) {
      status =
          Status(status.kind(), spec_.Who() + ": input " + std::to_string(arguments->size() - 1) +
                                    ": " + status.message());
    } else if (input.element_type == kString) {
      std::string storage;
      std::vector<std::string_view> strings;
      status = call.ReadStrings(arguments->size() - 1, &storage, &strings);
      if (status.ok()) argument = MakeStrings(input.shape, strings);
    } else {
      argument = callable_.copy_inputs ? MakeCopy(input) : MakeView(input);
    }
    if (argument == nullptr) {
      for (PyObject* made : *arguments) Py_XDECREF(made);
      return status.ok() ? Failure(true).ToStatus(spec_.Who() + ": the array of an input", true)
                         : status;
    }
    arguments->push_back(argument);
  }
  return Status();
}

bool PythonOperator::Release(Arguments arguments) {
  const auto is_kept = [&](PyObject* argument) {
    return argument != nullptr && IsLent(argument) && Py_REFCNT(argument) > 1;
  };
  AwaitRelease([&] { return std::any_of(arguments.begin(), arguments.end(), is_kept); });
  bool all_released = true;
  for (PyObject* argument : arguments) {
    if (is_kept(argument)) {
      Detach(argument);
      kept_.push_back(nb::borrow(argument));
      all_released = false;
    }
    Py_XDECREF(argument);
  }
  return all_released;
}

bool PythonOperator::HoldsArguments() {
  // Letting go of an array may run Python, and with it another call: kept_ is settled before.
  const auto is_held = [](const nb::object& kept) { return Py_REFCNT(kept.ptr()) > 1; };
  const auto first_free = std::partition(kept_.begin(), kept_.end(), is_held);
  const std::vector<nb::object> let_go(std::make_move_iterator(first_free),
                                       std::make_move_iterator(kept_.end()));
  kept_.erase(first_free, kept_.end());
  return !kept_.empty();
}

}  // namespace opgraft::pyop
