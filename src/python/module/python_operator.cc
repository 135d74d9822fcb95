// Lends NumPy arrays over the runtime's memory, and chooses the place, CPU or GPU.
#include "python/module/python_operator.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/element_type.h"
#include "python/call/arrays.h"
#include "python/call/numpy_outputs.h"
#include "python/gpu/gpu_operator.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Makes sure that there can be arrays of the input's type, or returns why there cannot.
Status FindInputType(const TensorView& input) {
  const ElementType* const type = FindElementType(input.element_type);
  if (type != nullptr && type->is_carried) return FindArrays(input.element_type);
  return Status::Model("it is " + ElementTypeName(input.element_type) +
                       ", which a Python operator cannot take");
}

/// The place of an operator whose arrays are in the host's memory.
class HostPlace {
 public:
  Status Find(const Spec&) { return Status(); }
  void Clear() { kept_.clear(); }
  void Forget() {
    for (nb::object& kept : kept_) kept.release();
  }

  class Turn {
   public:
    Turn(HostPlace& place, const Spec& spec, const PythonCallable& callable, Call& call)
        : place_(place), spec_(spec), callable_(callable), call_(call) {}

    std::span<const TensorView> inputs() const { return call_.inputs(); }
    bool HoldsArguments() { return place_.HoldsArguments(); }
    std::string HowToCopy() const { return "array.copy()"; }
    bool KeepsFrames() const { return callable_.copy_inputs; }
    void Begin(const InferredShapes* inferred) {
      outputs_.emplace(spec_, call_, inferred, KeepsFrames());
    }
    PyObject* Make(std::size_t index, Status* status) {
      const TensorView& input = inputs()[index];
      if (!HasArrays(input.element_type)) *status = FindInputType(input);
      if (!status->ok()) {
        *status = Status(status->kind(), spec_.Who() + ": input " + std::to_string(index) + ": " +
                                             status->message());
        return nullptr;
      }
      if (input.element_type != kString) {
        return callable_.copy_inputs ? MakeCopy(input) : MakeView(input);
      }
      std::string storage;
      std::vector<std::string_view> strings;
      *status = call_.ReadStrings(index, &storage, &strings);
      return status->ok() ? MakeStrings(input.shape, strings) : nullptr;
    }
    Status MakeOut(Arguments* arguments) { return outputs_->MakeOut(arguments); }
    Status Store(const nb::object& returned, std::span<PyObject* const> out) {
      return outputs_->Store(returned.ptr(), out);
    }
    bool Release(Arguments* arguments) { return place_.Release(arguments); }
    Status Finish() { return Status(); }

   private:
    HostPlace& place_;
    const Spec& spec_;
    const PythonCallable& callable_;
    Call& call_;
    std::optional<NumPyOutputs> outputs_;
  };

 private:
  /// Moves the arguments that the operator has kept to kept_.
  bool Release(Arguments* arguments) {
    const auto is_kept = [](PyObject* argument) {
      return IsLent(argument) && Py_REFCNT(argument) > 1;
    };
    const std::span<PyObject* const> all = arguments->all();
    AwaitRelease([&] { return std::any_of(all.begin(), all.end(), is_kept); });
    bool all_released = true;
    for (PyObject* argument : all) {
      if (!is_kept(argument)) continue;
      Detach(argument);
      kept_.push_back(nb::borrow(argument));
      all_released = false;
    }
    arguments->Clear();
    return all_released;
  }

  bool HoldsArguments() {
    // Releasing an array may run Python code, even another call, so kept_ is updated first.
    const auto is_held = [](const nb::object& kept) { return Py_REFCNT(kept.ptr()) > 1; };
    const auto first_free = std::partition(kept_.begin(), kept_.end(), is_held);
    const std::vector<nb::object> let_go(std::make_move_iterator(first_free),
                                         std::make_move_iterator(kept_.end()));
    kept_.erase(first_free, kept_.end());
    return !kept_.empty();
  }

  std::vector<nb::object> kept_;
};

}  // namespace

Status CreateOperator(const Spec& spec, const Policy& policy, const Gpu* gpu,
                      std::unique_ptr<Operator>* made) {
  return gpu != nullptr ? PythonOperator<GpuPlace>::Create(spec, policy, made, *gpu)
                        : PythonOperator<HostPlace>::Create(spec, policy, made);
}

}  // namespace opgraft::pyop
