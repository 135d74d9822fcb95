// Runs a Python function on torch tensors: it gets NumPy views, and its arrays become tensors,
// without copies if possible.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bridge/bridge.h"
#include "model/python_spec.h"
#include "python/call/arrays.h"
#include "python/call/dlpack_tensors.h"
#include "python/call/invocation.h"
#include "python/call/numpy_outputs.h"
#include "python/call/shape_rule.h"
#include "python/eager/kernel.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

using pyop::TensorView;
using Objects = std::pmr::vector<nb::object>;

/// A call whose outputs are new NumPy arrays.
class ArrayCall final : public pyop::Call {
 public:
  ArrayCall(std::span<const TensorView> inputs, const std::vector<std::int64_t>& output_types,
            std::pmr::memory_resource* memory)
      : inputs_(inputs), output_types_(output_types), outputs_(memory) {}

  std::span<const TensorView> inputs() const override { return inputs_; }
  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    outputs_.resize(output_types_.size());
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
  Objects outputs_;  // empty until the first output is made
};

/// Uses the arrays that will become tensors as `out`.
class ArrayOutputs final : public pyop::NumPyOutputs {
 public:
  ArrayOutputs(const pyop::Spec& spec, ArrayCall& call, const pyop::InferredShapes* inferred)
      : NumPyOutputs(spec, call, inferred, /*keep_frames=*/true), arrays_(call) {}

 private:
  PyObject* MakeOutArray(const TensorView&) override {
    return Py_NewRef(arrays_.outputs()[made_++].ptr());
  }

  ArrayCall& arrays_;
  std::size_t made_ = 0;
};

/// One call on torch tensors. Their memory lives as long as the arrays over it, so that an operator
/// may keep those.
class TorchTurn {
 public:
  TorchTurn(const pyop::Spec& spec, const pyop::PythonCallable& callable, Inputs& inputs,
            const dlpack::Exchange& exchange, Outputs* outputs)
      : spec_(spec),
        callable_(callable),
        given_(inputs),
        exchange_(exchange),
        outputs_(outputs),
        views_(inputs.all.size(), inputs.memory),
        call_(views_, spec.output_types, inputs.memory) {
    static char nothing;  // the data of an empty tensor, since nullptr means absent
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const Input& input = inputs.all[i];
      if (input.object == nullptr) continue;
      void* const data = DataOf(input.tensor);
      views_[i] = {data != nullptr ? data : &nothing, input.type, ShapeOf(input.tensor)};
    }
  }

  std::span<const TensorView> inputs() const { return views_; }
  bool HoldsArguments() const { return false; }
  std::string HowToCopy() const { return ""; }
  bool KeepsFrames() const { return true; }
  void Begin(const pyop::InferredShapes* inferred) { inferred_ = inferred; }
  PyObject* Make(std::size_t index, Status*) const {
    const Input& input = given_.all[index];
    const TensorView view = {DataOf(input.tensor), input.type, ShapeOf(input.tensor)};
    PyObject* const array = pyop::MakeSharedView(view, input.tensor.strides, input.object);
    if (array == nullptr || !callable_.copy_inputs) return array;
    const nb::object shared = nb::steal(array);
    return pyop::CopyOf(array);
  }
  Status MakeOut(pyop::Arguments* arguments) {
    store_.emplace(spec_, call_, inferred_);
    return store_->MakeOut(arguments);
  }
  Status Store(nb::object& returned, std::span<PyObject* const> out) {
    if (!callable_.takes_out) {
      if (TakeUnshared(returned)) return Status();
      store_.emplace(spec_, call_, inferred_);
    }
    return store_->Store(returned.ptr(), out);
  }
  bool Release(pyop::Arguments* arguments) const {
    arguments->Clear();
    return true;
  }
  Status Finish();

 private:
  /// Takes the returned arrays without a copy, if ownership of all of them can be transferred.
  bool TakeUnshared(nb::object& returned);

  const pyop::Spec& spec_;
  const pyop::PythonCallable& callable_;
  Inputs& given_;
  const dlpack::Exchange& exchange_;
  Outputs* const outputs_;
  std::pmr::vector<TensorView> views_;
  ArrayCall call_;
  const pyop::InferredShapes* inferred_ = nullptr;
  std::optional<ArrayOutputs> store_;  // made when it is needed
};

bool TorchTurn::TakeUnshared(nb::object& returned) {
  const std::size_t expected = spec_.output_types.size();
  const bool is_tuple = PyTuple_CheckExact(returned.ptr());
  if (expected == 0 || (expected != 1 && !is_tuple)) return false;
  if (is_tuple && (Py_REFCNT(returned.ptr()) != 1 ||
                   static_cast<std::size_t>(Py_SIZE(returned.ptr())) != expected)) {
    return false;
  }
  Objects found(given_.memory);
  for (std::size_t i = 0; i < expected; ++i) {
    PyObject* const value =
        is_tuple ? NB_TUPLE_GET_ITEM(returned.ptr(), static_cast<Py_ssize_t>(i)) : returned.ptr();
    const bool is_ours = Py_REFCNT(value) == 1;
    if (pyop::FindUnshared(value, spec_.output_types[i], is_ours) == nullptr) return false;
    const pyop::DeclaredShape* const rule = inferred_ != nullptr ? &inferred_->outputs[i] : nullptr;
    if (rule != nullptr && *rule && !pyop::Fits(pyop::ShapeOf(value), **rule)) return false;
    found.push_back(nb::borrow(value));
  }
  call_.outputs() = std::move(found);
  return true;
}

Status TorchTurn::Finish() {
  Objects& arrays = call_.outputs();
  outputs_->reserve(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto type = static_cast<std::int32_t>(spec_.output_types[i]);
    // If the operator has kept `out`, the tensor gets a copy.
    if (callable_.takes_out &&
        pyop::FindUnshared(arrays[i].ptr(), type, Py_REFCNT(arrays[i].ptr()) == 1) == nullptr) {
      arrays[i] = Checked(pyop::CopyOf(arrays[i].ptr()));
    }
    PyObject* const array = arrays[i].ptr();
    OutputTensor output;
    if (!output.Share(std::move(arrays[i]), type, pyop::ShapeOf(array), pyop::DataOf(array))) {
      return Status::Error(spec_.Who() + ": out of memory for output " + std::to_string(i));
    }
    outputs_->push_back(Checked(output.Give(exchange_)));
  }
  return Status();
}

class PythonFunction final : public Prepared {
 public:
  PythonFunction(std::shared_ptr<const Schema> schema, pyop::Spec spec,
                 const pyop::PythonCallable& callable)
      : Prepared(std::move(schema), spec.input_types), spec_(std::move(spec)), callable_(callable) {
    if (callable_.rule.is_valid()) rule_.emplace(spec_, callable_.rule);
  }

  Status Run(Inputs& inputs, const dlpack::Exchange& exchange, Outputs* outputs) override {
    TorchTurn turn(spec_, callable_, inputs, exchange, outputs);
    return pyop::CallFunction(spec_, callable_, rule_ ? &*rule_ : nullptr, turn);
  }

 private:
  const pyop::Spec spec_;
  const pyop::PythonCallable callable_;
  std::optional<pyop::ShapeRule> rule_;
};

}  // namespace

Status PreparePython(const std::shared_ptr<const Schema>& schema,
                     const pyop::PythonCallable& callable, const std::vector<std::int64_t>& types,
                     std::size_t outputs, std::shared_ptr<Prepared>* made) {
  if (schema->on_gpu) {
    return Status::Error(schema->FullName() + " runs on GPUs alone, not on the CPU. Fix: x.cuda()");
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
