// A Python function on tensors of torch's: NumPy views in, its arrays out, no copies if it can be.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "eager/kernel.h"
#include "eager/tensors.h"
#include "pyop/arrays.h"
#include "pyop/bridge.h"
#include "pyop/failure.h"
#include "pyop/numpy_outputs.h"
#include "pyop/shape_rule.h"
#include "pyop/spec.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

using pyop::TensorView;
using Objects = std::pmr::vector<nb::object>;

/// The names of keyword arguments in a call with `out`.
PyObject* OutKeyword() {
  static PyObject* const names = PyTuple_Pack(1, PyUnicode_InternFromString("out"));
  return names;
}

/// Outputs that are copies, as arrays of their own.
class ArrayCall final : public pyop::Call {
 public:
  ArrayCall(std::span<const TensorView> inputs, const std::vector<std::int64_t>& output_types)
      : inputs_(inputs), output_types_(output_types), outputs_(output_types.size()) {}

  std::span<const TensorView> inputs() const override { return inputs_; }
  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    outputs_[index] = nb::steal(pyop::MakeEmpty(output_types_[index], shape));
    if (!outputs_[index].is_valid()) throw nb::python_error();
    *data = pyop::DataOf(outputs_[index].ptr());
    return Status();
  }
  Status ReadStrings(std::size_t, std::string*, std::vector<std::string_view>*) override {
    return Status::Error("torch has no tensors of strings");
  }
  Status StoreStrings(std::size_t, std::span<const std::int64_t>,
                      std::span<const std::string_view>) override {
    return Status::Error("torch has no tensors of strings");
  }
  Status IsUnwanted(std::size_t, bool* is_unwanted) override {
    *is_unwanted = false;
    return Status();
  }

  Objects& outputs() { return outputs_; }

 private:
  const std::span<const TensorView> inputs_;
  const std::vector<std::int64_t>& output_types_;
  Objects outputs_;
};

class PythonFunction final : public Prepared {
 public:
  PythonFunction(std::shared_ptr<const Schema> schema, pyop::Spec spec,
                 const pyop::PythonCallable& callable)
      : Prepared(std::move(schema), spec.input_types), spec_(std::move(spec)), callable_(callable) {
    if (callable_.rule.is_valid()) rule_.emplace(spec_, callable_.rule);
  }

  Status Run(Inputs& inputs, const dlpack::Exchange& exchange, Outputs* outputs) override;

 private:
  Status MakeArguments(const Inputs& inputs, Objects* arguments) const;
  /// The arrays of `out`, behind the inputs, and what they are made as.
  Status MakeOut(const pyop::InferredShapes& inferred, Objects* arguments,
                 std::vector<TensorView>* views) const;
  nb::object Invoke(const Objects& arguments, std::size_t positional) const;
  /// What was returned, where all of it can change hands; nothing where some must be looked into.
  void TakeUnshared(nb::object& returned, const pyop::InferredShapes* inferred,
                    Objects* arrays) const;
  Status ToTorch(Objects* arrays, const dlpack::Exchange& exchange, Outputs* outputs) const;

  const pyop::Spec spec_;
  const pyop::PythonCallable callable_;
  std::optional<pyop::ShapeRule> rule_;
};

Status PythonFunction::Run(Inputs& inputs, const dlpack::Exchange& exchange, Outputs* outputs) {
  std::pmr::vector<TensorView> views(inputs.all.size(), inputs.memory);
  static char nothing;  // an empty tensor has no memory, but is there
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Input& input = inputs.all[i];
    if (input.object == nullptr) continue;
    void* const data = DataOf(input.tensor);
    views[i] = {data != nullptr ? data : &nothing, input.type, ShapeOf(input.tensor)};
  }
  std::shared_ptr<const pyop::InferredShapes> inferred;
  if (rule_) {
    if (Status status = rule_->Apply(views, &inferred); !status.ok()) return status;
  }
  Objects arguments(inputs.memory);
  Status status = MakeArguments(inputs, &arguments);
  const std::size_t positional = arguments.size();
  std::vector<TensorView> out;
  if (status.ok() && callable_.takes_out) status = MakeOut(*inferred, &arguments, &out);
  if (!status.ok()) return status;
  nb::object returned = Invoke(arguments, positional);
  if (!returned.is_valid()) {
    return pyop::Failure(/*keep_frames=*/true).ToStatus(spec_.Who() + ": the operator", true);
  }
  if (out.empty()) {
    Objects arrays(inputs.memory);
    TakeUnshared(returned, inferred.get(), &arrays);
    if (!arrays.empty()) return ToTorch(&arrays, exchange, outputs);
  }
  ArrayCall call(views, spec_.output_types);
  pyop::NumPyOutputs store(spec_, call, inferred.get(), /*keep_frames=*/true);
  std::vector<PyObject*> given;
  for (std::size_t i = positional; i < arguments.size(); ++i) given.push_back(arguments[i].ptr());
  store.AdoptOut(std::move(out));
  status = store.Store(returned.ptr(), given);
  if (!status.ok()) return status;
  returned.reset();
  for (std::size_t i = 0; i < given.size(); ++i) {
    nb::object array = std::move(arguments[positional + i]);
    // An operator that keeps `out` keeps an array of its own.
    const bool is_ours = Py_REFCNT(array.ptr()) == 1;
    if (pyop::FindUnshared(array.ptr(), spec_.output_types[i], is_ours) == nullptr) {
      array = nb::steal(pyop::CopyOf(array.ptr()));
      if (!array.is_valid()) throw nb::python_error();
    }
    call.outputs()[i] = std::move(array);
  }
  return ToTorch(&call.outputs(), exchange, outputs);
}

Status PythonFunction::MakeArguments(const Inputs& inputs, Objects* arguments) const {
  arguments->reserve(inputs.all.size() + spec_.output_types.size());
  for (const Input& input : inputs.all) {
    if (input.object == nullptr) {
      arguments->push_back(nb::none());
      continue;
    }
    const TensorView view = {DataOf(input.tensor), input.type, ShapeOf(input.tensor)};
    nb::object array = nb::steal(pyop::MakeSharedView(view, input.tensor.strides, input.object));
    if (array.is_valid() && callable_.copy_inputs) array = nb::steal(pyop::CopyOf(array.ptr()));
    if (!array.is_valid()) {
      return pyop::Failure(true).ToStatus(spec_.Who() + ": the array of an input", true);
    }
    arguments->push_back(std::move(array));
  }
  return Status();
}

Status PythonFunction::MakeOut(const pyop::InferredShapes& inferred, Objects* arguments,
                               std::vector<TensorView>* views) const {
  for (std::size_t i = 0; i < spec_.output_types.size(); ++i) {
    const pyop::DeclaredShape& shape = inferred.outputs[i];
    if (!shape || std::find(shape->begin(), shape->end(), pyop::kUnknown) != shape->end()) {
      return Status::PyOp(
          spec_.Who() + ": it takes 'out', but its shape rule does not tell the shape of output " +
          std::to_string(i));
    }
    nb::object array = nb::steal(pyop::MakeEmpty(spec_.output_types[i], *shape));
    if (!array.is_valid()) {
      return pyop::Failure(true).ToStatus(spec_.Who() + ": the array of 'out'", true);
    }
    views->push_back({pyop::DataOf(array.ptr()), spec_.output_types[i], *shape});
    arguments->push_back(std::move(array));
  }
  return Status();
}

nb::object PythonFunction::Invoke(const Objects& arguments, std::size_t positional) const {
  static_assert(sizeof(nb::object) == sizeof(PyObject*));
  if (!callable_.takes_out) {
    return nb::steal(PyObject_Vectorcall(callable_.compute.ptr(),
                                         reinterpret_cast<PyObject* const*>(arguments.data()),
                                         positional, nullptr));
  }
  const std::size_t outputs = arguments.size() - positional;
  std::vector<PyObject*> given;
  for (std::size_t i = 0; i < positional; ++i) given.push_back(arguments[i].ptr());
  nb::object tuple;  // of several outputs, `out` is one
  if (outputs == 1) {
    given.push_back(arguments[positional].ptr());
  } else {
    tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(outputs)));
    if (!tuple.is_valid()) return {};
    for (std::size_t i = 0; i < outputs; ++i) {
      PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i),
                       Py_NewRef(arguments[positional + i].ptr()));
    }
    given.push_back(tuple.ptr());
  }
  return nb::steal(
      PyObject_Vectorcall(callable_.compute.ptr(), given.data(), positional, OutKeyword()));
}

void PythonFunction::TakeUnshared(nb::object& returned, const pyop::InferredShapes* inferred,
                                  Objects* arrays) const {
  const std::size_t expected = spec_.output_types.size();
  const bool is_tuple = PyTuple_CheckExact(returned.ptr());
  if (expected == 0 || (expected != 1 && !is_tuple)) return;
  if (is_tuple && (Py_REFCNT(returned.ptr()) != 1 ||
                   static_cast<std::size_t>(Py_SIZE(returned.ptr())) != expected)) {
    return;
  }
  Objects found(arrays->get_allocator());
  for (std::size_t i = 0; i < expected; ++i) {
    PyObject* const value =
        is_tuple ? PyTuple_GET_ITEM(returned.ptr(), static_cast<Py_ssize_t>(i)) : returned.ptr();
    const bool is_ours = Py_REFCNT(value) == 1;
    if (pyop::FindUnshared(value, spec_.output_types[i], is_ours) == nullptr) return;
    const pyop::DeclaredShape* const rule = inferred != nullptr ? &inferred->outputs[i] : nullptr;
    if (rule != nullptr && *rule && !pyop::Fits(pyop::ShapeOf(value), **rule)) return;
    found.push_back(nb::borrow(value));
  }
  returned.reset();
  *arrays = std::move(found);
}

Status PythonFunction::ToTorch(Objects* arrays, const dlpack::Exchange& exchange,
                               Outputs* outputs) const {
  outputs->reserve(arrays->size());
  for (std::size_t i = 0; i < arrays->size(); ++i) {
    const auto type = static_cast<std::int32_t>(spec_.output_types[i]);
    PyObject* const array = (*arrays)[i].ptr();
    OutputTensor output;
    if (!output.Share(std::move((*arrays)[i]), type, pyop::ShapeOf(array), pyop::DataOf(array))) {
      return Status::Error(spec_.Who() + ": there is no memory for output " + std::to_string(i));
    }
    PyObject* const tensor = output.Give(exchange);
    if (tensor == nullptr) throw nb::python_error();
    outputs->push_back(nb::steal(tensor));
  }
  return Status();
}

}  // namespace

Status PreparePython(const std::shared_ptr<const Schema>& schema,
                     const pyop::PythonCallable& callable, const std::vector<std::int64_t>& types,
                     std::size_t outputs, std::shared_ptr<Prepared>* made) {
  if (schema->on_gpu) {
    return Status::Error(schema->FullName() +
                         " runs on GPUs alone, not on the host's memory. Fix: x.cuda()");
  }
  pyop::Spec spec;
  spec.module = schema->module;
  spec.operator_name = schema->FullName();
  spec.input_types = types;
  spec.output_types = OutputTypes(*schema, types, outputs);
  for (const auto* const needed : {&spec.input_types, &spec.output_types}) {
    for (const std::int64_t type : *needed) {
      if (type == 0) continue;
      const Status status = pyop::FindArrays(type);
      if (!status.ok()) return Status(status.kind(), spec.Who() + ": " + status.message());
    }
  }
  *made = std::make_shared<PythonFunction>(schema, std::move(spec), callable);
  return Status();
}

}  // namespace opgraft::eager
