// Making the object, calling its method, and checking all that comes back.
#include "pyop/python_operator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "core/element_type.h"
#include "core/text.h"
#include "pyop/arguments.h"
#include "pyop/arrays.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Below this an output is copied faster than the GIL is given up and taken again.
constexpr std::size_t kBytesWorthReleasing = 256UL * 1024;

/// How long an argument may still be held after the call, by a thread of the operator's that is
/// about to drop it, before that counts as kept: so many times a millisecond.
constexpr int kGraceSteps = 20;
constexpr int kCollectEvery = 5;

constexpr char kHowToKeep[] =
    "To mend it: keep a copy (input.copy()), or let every input be one, with the line "
    "'copy_inputs = True' in the class";

bool Fits(std::span<const std::int64_t> shape, std::span<const std::int64_t> declared) {
  const auto fits = [](std::int64_t size, std::int64_t expected) {
    return expected == kUnknown || expected == size;
  };
  return std::equal(shape.begin(), shape.end(), declared.begin(), declared.end(), fits);
}

/// As gc.collect() does, also where the collector is switched off.
void CollectGarbage() {
  try {
    nb::module_::import_("gc").attr("collect")();
  } catch (nb::python_error&) {  // then the arguments count as kept
  }
}

/// Calls `body`, which returns a Status, with the GIL held and every C++ exception caught.
template <class Body>
Status WithGil(const Spec& spec, Body body) noexcept {
  try {
    const nb::gil_scoped_acquire gil;
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
  Status status = WithGil(spec, [&] { return created->MakeObject(policy); });
  if (status.ok()) *made = std::move(created);
  return status;
}

PythonOperator::~PythonOperator() {
  if (Py_IsInitialized() == 0) {  // Python is gone before the session: there is nothing to release
    compute_.release();
    for (nb::object& kept : kept_) kept.release();
    return;
  }
  const nb::gil_scoped_acquire gil;
  compute_.reset();
  kept_.clear();
}

Status PythonOperator::FindClass(const Policy& policy, nb::object* found) const {
  *found = nb::steal(PyImport_ImportModule(spec_.module.c_str()));
  if (!found->is_valid()) {
    return Failure(/*keep_frames=*/true)
        .ToStatus(spec_.Who() + ": the import of '" + spec_.module + "'", true, spec_.module);
  }
  for (std::size_t start = 0; start <= spec_.class_name.size();) {
    const std::size_t dot = std::min(spec_.class_name.find('.', start), spec_.class_name.size());
    const std::string name = spec_.class_name.substr(start, dot - start);
    start = dot + 1;
    const nb::object outer = *found;
    *found = nb::steal(PyObject_GetAttrString(outer.ptr(), name.c_str()));
    if (!found->is_valid()) {
      return Failure(/*keep_frames=*/true)
          .ToStatus(spec_.Who() + ": the look-up of class '" + spec_.class_name + "'", true, outer);
    }
    if (!PyType_Check(found->ptr())) {
      return Status::PyOp(spec_.Who() + ": expected '" + name + "' to be a class, but it is " +
                          Describe(found->ptr()));
    }
    // A module holds what it imports too, and allowing it does not allow those.
    if (Status status = CheckHome(policy, *found); !status.ok()) return status;
  }
  return Status();
}

Status PythonOperator::CheckHome(const Policy& policy, const nb::object& object) const {
  const std::string home = ToUtf8(nb::getattr(object, "__module__", nb::none()));
  if (home == spec_.module || policy.Allows(home)) return Status();
  if (!home.empty()) return policy.Refusal(spec_.Who(), home);
  return Status::Policy(spec_.Who() + ": " + Describe(object.ptr()) +
                        " does not say in '__module__' which module it is of, so that it cannot be "
                        "allowed");
}

Status PythonOperator::MakeObject(const Policy& policy) {
  nb::object type;
  nb::dict arguments;
  if (Status status = FindClass(policy, &type); !status.ok()) return status;
  if (Status status = ReadArguments(spec_, &arguments); !status.ok()) return status;
  const nb::tuple nothing;
  const nb::object object = nb::steal(PyObject_Call(type.ptr(), nothing.ptr(), arguments.ptr()));
  if (!object.is_valid()) {
    return Failure(/*keep_frames=*/true).ToStatus(spec_.Who() + ": its __init__", true, arguments);
  }
  compute_ = nb::steal(PyObject_GetAttrString(object.ptr(), spec_.compute.c_str()));
  if (!compute_.is_valid()) {
    return Failure(/*keep_frames=*/true)
        .ToStatus(spec_.Who() + ": the look-up of method '" + spec_.compute + "'", true, type);
  }
  if (PyCallable_Check(compute_.ptr()) == 0) {
    return Status::PyOp(spec_.Who() + ": expected '" + spec_.compute +
                        "' to be a method, but it is " + Describe(compute_.ptr()));
  }
  // The name is the model's choice. 'compute' is what a class offers to models; of its other
  // methods only those, not what it inherits or imports from modules that are not allowed.
  if (spec_.compute != Spec().compute) {
    if (Status status = CheckHome(policy, compute_); !status.ok()) return status;
  }
  copy_inputs_ = nb::cast<bool>(nb::bool_(nb::getattr(type, "copy_inputs", nb::bool_(false))));
  return Status();
}

Status PythonOperator::Compute(Call& call) noexcept {
  const OperatorCall operator_call;
  return WithGil(spec_, [&] { return ComputeWithGil(call); });
}

Status PythonOperator::ComputeWithGil(Call& call) {
  if (HoldsArguments()) {
    return Status::PyOp(spec_.Who() + ": not run, since an input that an earlier call of " +
                        spec_.compute +
                        " kept is still held, by the operator or by someone it was "
                        "handed to (in a notebook also by '_' and 'Out'). " +
                        kHowToKeep);
  }
  Arguments arguments;
  Status status = MakeArguments(call, &arguments);
  if (!status.ok()) return status;
  // The slot before the first argument is free for a bound method to put its object into.
  nb::object returned = nb::steal(
      PyObject_Vectorcall(compute_.ptr(), arguments.data() + 1,
                          (arguments.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!returned.is_valid()) {
    const Failure failure(/*keep_frames=*/copy_inputs_);
    // An exception that holds an argument is not kept: it would outlive the memory.
    const bool is_released = Release(std::move(arguments));
    return failure.ToStatus(spec_.Who() + ": " + spec_.compute, is_released);
  }
  status = StoreOutputs(call, returned.ptr());
  returned.reset();
  if (!Release(std::move(arguments)) && status.ok()) {
    return Status::PyOp(spec_.Who() + ": " + spec_.compute +
                        " kept an input, or a view of one, beyond the call, but its memory is ONNX "
                        "Runtime's and is used again. " +
                        kHowToKeep);
  }
  return status;
}

Status PythonOperator::MakeArguments(Call& call, Arguments* arguments) const {
  arguments->reserve(call.inputs().size() + 1);
  arguments->push_back(nullptr);
  for (const TensorView& input : call.inputs()) {
    PyObject* argument = nullptr;
    Status status;
    if (input.data == nullptr) {
      argument = Py_NewRef(Py_None);
    } else if (!HasArrays(input.element_type)) {
      status = Status::Model(spec_.Who() + ": input " + std::to_string(arguments->size() - 1) +
                             " is " + ElementTypeName(input.element_type) +
                             ", which a Python operator cannot take yet");
    } else {
      argument = copy_inputs_ ? MakeCopy(input) : MakeView(input);
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

Status PythonOperator::StoreOutputs(Call& call, PyObject* returned) const {
  const std::size_t expected = spec_.output_types.size();
  const bool is_tuple = PyTuple_Check(returned);
  if (expected == 1 && !is_tuple) return StoreOutput(call, 0, returned, Py_REFCNT(returned) == 1);
  if (expected == 0 && returned == Py_None) return Status();
  const bool is_sequence = is_tuple || PyList_Check(returned);
  if (!is_sequence || static_cast<std::size_t>(Py_SIZE(returned)) != expected) {
    return Status::PyOp(spec_.Who() + ": expected " + spec_.compute + " to return " +
                        (expected == 1 ? "one array"
                                       : "a tuple of " + std::to_string(expected) +
                                             " arrays, one for each of 'output_types'") +
                        ", but it returned " + Describe(returned) +
                        ". To mend it: return as many as the node has outputs, or give the node as "
                        "many outputs and 'output_types'");
  }
  const bool is_list_ours = Py_REFCNT(returned) == 1;
  for (std::size_t i = 0; i < expected; ++i) {
    const nb::object output = nb::steal(PySequence_GetItem(returned, static_cast<Py_ssize_t>(i)));
    Status status =
        output.is_valid()
            ? StoreOutput(call, i, output.ptr(), is_list_ours && Py_REFCNT(output.ptr()) == 2)
            : Failure(copy_inputs_).ToStatus(spec_.Who() + ": its list", true);
    if (!status.ok()) return status;
  }
  return Status();
}

Status PythonOperator::StoreOutput(Call& call, std::size_t index, PyObject* value,
                                   bool is_ours) const {
  const std::int64_t type = spec_.output_types[index];
  const std::string_view type_name = FindElementType(type)->name;
  const auto unexpected = [&](const std::string& expected, const std::string& mend) {
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) + ": expected " +
                        expected + ", but " + spec_.compute + " returned " + Describe(value) +
                        ". To mend it: " + mend);
  };
  ReturnedArray array;
  const std::string array_of_type = "a NumPy array of " + std::string(type_name);
  if (!array.Take(value)) return unexpected(array_of_type, HowToReturn(value, type_name));
  if (!array.HasType(type)) {
    return unexpected(array_of_type, "return value.astype(numpy." + std::string(type_name) +
                                         "), or declare the other type in 'output_types'");
  }
  if (index < spec_.output_shapes.size()) {
    const DeclaredShape& declared = spec_.output_shapes[index];
    if (declared && !Fits(array.shape(), *declared)) {
      return unexpected(
          "an array of shape (" + DimensionsText(*declared) + "), as the model declares",
          "return that shape, or declare another one in the model");
    }
  }
  void* memory = nullptr;
  Status status = call.Allocate(index, array.shape(), &memory);
  if (!status.ok()) {
    return Status(status.kind(), spec_.Who() + ": output " + std::to_string(index) +
                                     ", for which " + spec_.compute + " returned " +
                                     Describe(value) + ": " + status.message());
  }
  if (memory == nullptr) return status;
  const std::span<const std::byte> block = array.block();
  if (block.size() >= kBytesWorthReleasing && is_ours && array.OwnsItsMemory()) {
    WithoutGil([&] { std::memcpy(memory, block.data(), block.size()); });
  } else if (!block.empty()) {
    std::memcpy(memory, block.data(), block.size());
  } else if (!array.CopyTo(type, memory)) {
    return Failure(copy_inputs_).ToStatus(spec_.Who() + ": the copy of an output", true);
  }
  return Status();
}

bool PythonOperator::Release(Arguments arguments) {
  const auto is_kept = [&](PyObject* argument) {
    return argument != nullptr && argument != Py_None && !copy_inputs_ && Py_REFCNT(argument) > 1;
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
