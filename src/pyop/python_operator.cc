// Making the object, calling its method, and checking all that comes back.
#include "pyop/python_operator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "core/element_type.h"
#include "core/text.h"
#include "pyop/arrays.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/gil.h"
#include "pyop/outputs.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// How long an argument may still be held after the call, by a thread of the operator's that is
/// about to drop it, before that counts as kept: so many times a millisecond.
constexpr int kGraceSteps = 20;
constexpr int kCollectEvery = 5;

/// Makes arrays of the input's type possible, or says why they are not.
Status FindInputType(const TensorView& input) {
  const ElementType* const type = FindElementType(input.element_type);
  if (type != nullptr && type->is_carried) return FindArrays(input.element_type);
  return Status::Model("it is " + ElementTypeName(input.element_type) +
                       ", which a Python operator cannot take");
}

/// As gc.collect() does, also where the collector is switched off.
void CollectGarbage() {
  try {
    nb::module_::import_("gc").attr("collect")();
  } catch (nb::python_error&) {  // then the arguments count as kept
  }
}

/// The names of keyword arguments in a call with `out`.
PyObject* OutKeyword() {
  static PyObject* const names = PyTuple_Pack(1, PyUnicode_InternFromString("out"));
  return names;
}

/// Calls `body`, which returns a Status, with the GIL held and every C++ exception caught.
template <class Body>
Status WithGil(const Spec& spec, Body body) noexcept {
  try {
    const ScopedGil gil;
    try {
      return body();
    } catch (nb::python_error& error) {
      error.restore();
      return Failure(/*keep_frames=*/false).ToStatus(spec.Who() + ": a call of Python", true);
    } catch (const platform::ThreadExit&) {
      Park();  // here, before the GIL that Python has not given is given back
    }
  } catch (const std::exception& exception) {
    return Status::Error(spec.Who() + ": " + exception.what());
  } catch (const platform::ThreadExit&) {
    Park();
  }
}

}  // namespace

Status PythonOperator::Create(const Spec& spec, const Policy& policy,
                              std::unique_ptr<Operator>* made) {
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
  return WithGil(spec_, [&] { return ComputeWithGil(call); });
}

Status PythonOperator::ComputeWithGil(Call& call) {
  if (HoldsArguments()) {
    return Status::PyOp(spec_.Who() + ": not run, since " + KeptText() +
                        " that an earlier call kept is still held, by the operator or by someone "
                        "it was handed to (in a notebook also by '_' and 'Out'). " +
                        HowToKeep());
  }
  std::shared_ptr<const InferredShapes> inferred;
  if (rule_) {
    if (Status status = rule_->Apply(call.inputs(), &inferred); !status.ok()) return status;
  }
  Arguments arguments;
  Status status = MakeArguments(call, &arguments);
  if (!status.ok()) return status;
  const std::size_t positional = arguments.size() - 1;
  OutputStore outputs(spec_, call, inferred.get(), /*keep_frames=*/callable_.copy_inputs);
  if (callable_.takes_out) {
    status = outputs.MakeOut(&arguments);
    if (!status.ok()) {
      Release(std::move(arguments));
      return status;
    }
  }
  nb::object returned = Invoke(positional, &arguments);
  if (!returned.is_valid()) {
    const Failure failure(/*keep_frames=*/callable_.copy_inputs);
    // An exception that holds an argument is not kept: it would outlive the memory.
    const bool is_released = Release(std::move(arguments));
    return failure.ToStatus(spec_.Who() + ": " + spec_.Callee(), is_released);
  }
  status = outputs.Store(returned.ptr(), std::span(arguments).subspan(positional + 1));
  returned.reset();
  if (!Release(std::move(arguments)) && status.ok()) {
    return Status::PyOp(spec_.Who() + ": " + spec_.Callee() + " kept " + KeptText() +
                        ", or a view of one, beyond the call, but its memory is ONNX Runtime's and "
                        "is used again. " +
                        HowToKeep());
  }
  return status;
}

nb::object PythonOperator::Invoke(std::size_t positional, Arguments* arguments) const {
  // Of several outputs, `out` is a tuple. It stands where its arrays begin, during the call alone.
  const auto out = static_cast<std::ptrdiff_t>(positional) + 1;
  const auto count = static_cast<std::ptrdiff_t>(arguments->size()) - out;
  nb::object tuple;
  if (callable_.takes_out && count != 1) {
    tuple = nb::steal(PyTuple_New(count));
    if (!tuple.is_valid()) return {};
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      PyTuple_SET_ITEM(tuple.ptr(), i, Py_NewRef(*(arguments->begin() + out + i)));
    }
    arguments->insert(arguments->begin() + out, tuple.ptr());
  }
  // The slot before the first argument is free for a bound method to put its object into.
  nb::object returned = nb::steal(PyObject_Vectorcall(
      callable_.compute.ptr(), arguments->data() + 1, positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
      callable_.takes_out ? OutKeyword() : nullptr));
  if (tuple.is_valid()) arguments->erase(arguments->begin() + out);
  return returned;
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

std::string PythonOperator::KeptText() const {
  return callable_.takes_out ? "an input or 'out'" : "an input";
}

std::string PythonOperator::HowToKeep() const {
  return std::string("To mend it: keep a copy (array.copy()), or let every input be one, with ") +
         (spec_.IsDeclared() ? "@opgraft.op(..., copy_inputs=True)"
                             : "the line 'copy_inputs = True' in the class");
}

bool PythonOperator::Release(Arguments arguments) {
  const auto is_kept = [&](PyObject* argument) {
    return argument != nullptr && IsLent(argument) && Py_REFCNT(argument) > 1;
  };
  const auto any_kept = [&] { return std::any_of(arguments.begin(), arguments.end(), is_kept); };
  for (int step = 0; step < kGraceSteps && any_kept(); ++step) {
    // Cycles that nobody holds are no fault of the operator's. Once may not do: a collection that
    // is under way in another thread makes this one return at once.
    if (step % kCollectEvery == 0) CollectGarbage();
    WithoutGil([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
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
