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

/// Makes arrays of the input's type possible, or says why they are not.
Status FindInputType(const TensorView& input) {
  const ElementType* const type = FindElementType(input.element_type);
  if (type != nullptr && type->is_carried) return FindArrays(input.element_type);
  return Status::Model("it is " + ElementTypeName(input.element_type) +
                       ", which a Python operator cannot take");
}

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
  Status status = WithGil(spec, [&] { return MakeCallable(spec, policy, &created->callable_); });
  if (status.ok()) *made = std::move(created);
  return status;
}

PythonOperator::~PythonOperator() {
  if (Py_IsInitialized() == 0) {  // Python is gone before the session: there is nothing to release
    callable_.compute.release();
    callable_.rule.release();
    for (nb::object& kept : kept_) kept.release();
    return;
  }
  const ScopedGil gil;
  callable_ = PythonCallable();
  kept_.clear();
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
  if (callable_.rule.is_valid()) {
    if (Status status = ApplyRule(call.inputs()); !status.ok()) return status;
  }
  const std::shared_ptr<const Inferred> inferred = inferred_;
  Arguments arguments;
  Status status = MakeArguments(call, &arguments);
  if (!status.ok()) return status;
  const std::size_t positional = arguments.size() - 1;
  std::vector<OutArray> out;
  if (callable_.takes_out) {
    status = MakeOut(call, *inferred, &out, &arguments);
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
    return failure.ToStatus(spec_.Who() + ": " + spec_.compute, is_released);
  }
  status = StoreOutputs(call, returned.ptr(), inferred.get(), out);
  returned.reset();
  if (!Release(std::move(arguments)) && status.ok()) {
    return Status::PyOp(spec_.Who() + ": " + spec_.compute +
                        " kept an input, or a view of one, beyond the call, but its memory is ONNX "
                        "Runtime's and is used again. " +
                        kHowToKeep);
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

Status PythonOperator::ApplyRule(std::span<const TensorView> inputs) {
  const auto is_same = [](const TensorView& input, const InputShape& known) {
    if ((input.data == nullptr) != !known) return false;
    return !known ||
           std::equal(input.shape.begin(), input.shape.end(), known->begin(), known->end());
  };
  if (inferred_ != nullptr && std::equal(inputs.begin(), inputs.end(), inferred_->inputs.begin(),
                                         inferred_->inputs.end(), is_same)) {
    return Status();
  }
  auto inferred = std::make_shared<Inferred>();
  nb::list shapes;
  for (const TensorView& input : inputs) {
    InputShape& shape = inferred->inputs.emplace_back();
    if (input.data == nullptr) {
      shapes.append(nb::none());
      continue;
    }
    shape.emplace(input.shape.begin(), input.shape.end());
    nb::list dimensions;
    for (const std::int64_t size : input.shape) dimensions.append(size);
    shapes.append(nb::tuple(dimensions));
  }
  nb::object given;
  try {
    given = callable_.rule(shapes, spec_.output_types.size());
    for (const nb::handle shape : given) {
      DeclaredShape& output = inferred->outputs.emplace_back();
      if (shape.is_none()) continue;
      output.emplace();
      for (const nb::handle size : shape) {
        output->push_back(size.is_none() ? kUnknown : nb::cast<std::int64_t>(size));
      }
    }
  } catch (nb::python_error& error) {
    error.restore();
    return Failure(/*keep_frames=*/true).ToStatus(spec_.Who() + ": its shape rule", true);
  }
  inferred_ = std::move(inferred);
  return Status();
}

Status PythonOperator::MakeOut(Call& call, const Inferred& inferred, std::vector<OutArray>* out,
                               Arguments* arguments) const {
  for (std::size_t i = 0; i < spec_.output_types.size(); ++i) {
    const DeclaredShape& shape = inferred.outputs[i];
    if (!shape || std::find(shape->begin(), shape->end(), kUnknown) != shape->end()) {
      return Status::PyOp(spec_.Who() +
                          ": it takes 'out', but its shape rule does not tell the "
                          "shape of output " +
                          std::to_string(i));
    }
    if (Status status = CheckShape(i, *shape, nullptr, nullptr); !status.ok()) return status;
    if (!HasViews(spec_.output_types[i])) {
      return Status::PyOp(spec_.Who() + ": output " + std::to_string(i) + " is " +
                          ElementTypeName(spec_.output_types[i]) +
                          ", which cannot be written in place: do without the parameter 'out'");
    }
    void* memory = nullptr;
    Status status = call.Allocate(i, *shape, &memory);
    if (!status.ok()) return status;
    PyObject* array = MakeOutArray({memory, spec_.output_types[i], *shape});
    if (array == nullptr) return Failure(true).ToStatus(spec_.Who() + ": the array of 'out'", true);
    out->push_back({array});
    arguments->push_back(array);
  }
  return Status();
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

Status PythonOperator::StoreOutputs(Call& call, PyObject* returned, const Inferred* inferred,
                                    const std::vector<OutArray>& out) const {
  const std::size_t expected = spec_.output_types.size();
  const auto store = [&](std::size_t index, PyObject* value, bool is_ours) {
    return index < out.size() ? StoreIntoOut(index, value, out[index].array)
                              : StoreOutput(call, index, value, is_ours, inferred);
  };
  const bool is_tuple = PyTuple_Check(returned);
  if (!out.empty() && returned == Py_None) return Status();
  if (expected == 1 && !is_tuple) return store(0, returned, Py_REFCNT(returned) == 1);
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
    Status status = output.is_valid()
                        ? store(i, output.ptr(), is_list_ours && Py_REFCNT(output.ptr()) == 2)
                        : Failure(callable_.copy_inputs).ToStatus(spec_.Who() + ": its list", true);
    if (!status.ok()) return status;
  }
  return Status();
}

Status PythonOperator::StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const {
  if (value == out) return Status();
  ReturnedArray array;
  const std::int64_t type = spec_.output_types[index];
  const bool fits = array.Take(value) && array.HasType(type) && array.HasShapeOf(out);
  if (!fits) {
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) +
                        ": expected None, 'out', or " + Describe(out) + ", but " + spec_.compute +
                        " returned " + Describe(value));
  }
  if (array.CopyTo(out)) return Status();
  return Failure(callable_.copy_inputs).ToStatus(spec_.Who() + ": the copy of an output", true);
}

Status PythonOperator::CheckShape(std::size_t index, std::span<const std::int64_t> shape,
                                  const Inferred* inferred, PyObject* value) const {
  const auto refuse = [&](const DeclaredShape& expected, const std::string& source,
                          const std::string& mend) {
    const std::string got = value != nullptr
                                ? spec_.compute + " returned " + Describe(value)
                                : "its shape rule gives (" + DimensionsText(shape) + ")";
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) +
                        ": expected an array of shape (" + DimensionsText(*expected) + "), as " +
                        source + ", but " + got + ". To mend it: " + mend);
  };
  if (index < spec_.output_shapes.size()) {
    const DeclaredShape& declared = spec_.output_shapes[index];
    if (declared && !Fits(shape, *declared)) {
      return refuse(declared, "the model declares",
                    "return that shape, or declare another one in the model");
    }
  }
  if (inferred == nullptr || !inferred->outputs[index]) return Status();
  if (Fits(shape, *inferred->outputs[index])) return Status();
  return refuse(inferred->outputs[index], "its shape rule says", "mend the rule or the operator");
}

Status PythonOperator::StoreOutput(Call& call, std::size_t index, PyObject* value, bool is_ours,
                                   const Inferred* inferred) const {
  const std::int64_t type = spec_.output_types[index];
  const auto unexpected = [&](const std::string& expected, const std::string& mend,
                              const std::string& problem = "") {
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) + ": expected " +
                        expected + ", but " + spec_.compute + " returned " + Describe(value) +
                        (problem.empty() ? "" : ": " + problem) + ". To mend it: " + mend);
  };
  const auto array_of_type = [&] {
    return type == kString ? std::string("an array of str")
                           : "a NumPy array of " + ElementTypeName(type);
  };
  ReturnedArray array;
  if (!array.Take(value)) {
    if (value == Py_None) {
      bool is_unwanted = false;
      const Status status = call.IsUnwanted(index, &is_unwanted);
      if (!status.ok() || is_unwanted) return status;
    }
    std::string problem;
    if (!array.TakePlain(value, type, &problem)) {
      return unexpected(array_of_type(), HowToReturn(value, DtypeName(type)), problem);
    }
  }
  if (!array.HasType(type)) {
    return unexpected(array_of_type(), "return value.astype(" + DtypeName(type) +
                                           "), or declare the other type in 'output_types'");
  }
  if (Status status = CheckShape(index, array.shape(), inferred, value); !status.ok())
    return status;
  void* memory = nullptr;
  Status status;
  if (type == kString) {
    std::vector<nb::object> owners;
    std::vector<std::string_view> strings;
    std::string problem;
    if (!array.ReadStrings(&owners, &strings, &problem)) {
      return unexpected(array_of_type(), "let every element be a str", problem);
    }
    status = call.StoreStrings(index, array.shape(), strings);
  } else {
    status = call.Allocate(index, array.shape(), &memory);
  }
  if (!status.ok()) {
    return Status(status.kind(), spec_.Who() + ": output " + std::to_string(index) +
                                     ", for which " + spec_.compute + " returned " +
                                     Describe(value) + ": " + status.message());
  }
  if (memory == nullptr) return status;
  const std::span<const std::byte> block =
      FindElementType(type)->IsPacked() ? std::span<const std::byte>() : array.block();
  if (block.size() >= kBytesWorthReleasing && is_ours && array.OwnsItsMemory()) {
    WithoutGil([&] { std::memcpy(memory, block.data(), block.size()); });
  } else if (!block.empty()) {
    std::memcpy(memory, block.data(), block.size());
  } else if (!array.CopyTo(type, memory)) {
    return Failure(callable_.copy_inputs).ToStatus(spec_.Who() + ": the copy of an output", true);
  }
  return Status();
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
