// What torch calls for an operator of ours: on plain tensors it runs at once, without Python code
// of ours in between; all else is left to a function of opgraft.torch.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "core/schema.h"
#include "eager/dlpack.h"
#include "opgraft/status.h"
#include "pyop/callable.h"

// All here needs the GIL.
namespace opgraft::eager {

struct Input {
  PyObject* object = nullptr;  ///< nullptr for one that is absent
  dlpack::Tensor tensor = {};
  std::int64_t type = 0;  ///< ONNX's number; 0 for one that is absent, or of a type that ONNX lacks
};

/// The inputs of one call. All lists that a call needs are in its memory: small ones come and go
/// with it, at no cost.
struct Inputs {
  explicit Inputs(std::pmr::memory_resource* call_memory) : memory(call_memory), all(call_memory) {}

  std::pmr::memory_resource* memory;
  std::pmr::vector<Input> all;
  std::vector<nanobind::object> kept;  ///< what was made for the call
};

using Outputs = std::pmr::vector<nanobind::object>;

/// An operator, with its attributes, ready for inputs of certain types.
class Prepared {
 public:
  Prepared(std::shared_ptr<const Schema> schema, std::vector<std::int64_t> types)
      : schema_(std::move(schema)), types_(std::move(types)) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  virtual ~Prepared() = default;

  bool IsFor(const Inputs& inputs) const;
  const Schema& schema() const { return *schema_; }
  /// Adds the outputs, as tensors of torch's. May throw nb::python_error, as may all that follows.
  virtual Status Run(Inputs& inputs, const dlpack::Exchange& exchange, Outputs* outputs) = 0;

 private:
  const std::shared_ptr<const Schema> schema_;  // it may be declared anew meanwhile
  const std::vector<std::int64_t> types_;
};

/// What each output is for inputs of these types; 0 where it has that of an input that is absent.
std::vector<std::int64_t> OutputTypes(const Schema& schema, const std::vector<std::int64_t>& types,
                                      std::size_t outputs);

/// One that runs a Python function.
Status PreparePython(const std::shared_ptr<const Schema>& schema,
                     const pyop::PythonCallable& callable, const std::vector<std::int64_t>& types,
                     std::size_t outputs, std::shared_ptr<Prepared>* made);
/// One that runs a pack's kernel.
Status PrepareNative(const std::shared_ptr<const Schema>& schema, const nanobind::dict& attributes,
                     const std::vector<std::int64_t>& types, std::size_t outputs,
                     std::shared_ptr<Prepared>* made);

/// The address of libtorch's `torch_parallel_for`, for loops of packs' kernels; 0 for none.
void SetParallelFor(std::uintptr_t address);

class Kernel {
 public:
  /// `read` makes of the keyword arguments of a call the attributes, by their declared names, and
  /// the number of outputs. `otherwise` is called in place of the operator where the tensors are
  /// not plain, or a gradient is wanted; None: never.
  Kernel(const std::string& full_name, bool is_native, nanobind::object read,
         nanobind::object otherwise);

  nanobind::object Call(PyObject* arguments, PyObject* keywords);

  /// Takes the operator as it is declared now.
  void Reload();

  /// The types of the outputs for inputs of these types; an Error where they do not fit.
  std::vector<std::int64_t> OutputTypes(const std::vector<std::int64_t>& types,
                                        std::size_t outputs) const;

 private:
  /// A set of attributes that there has been a call with.
  struct Node {
    nanobind::object keywords;
    nanobind::dict attributes;
    std::size_t outputs = 0;
    pyop::PythonCallable callable;  // of a Python operator
    std::vector<std::shared_ptr<Prepared>> prepared;
  };

  void ReadInputs(PyObject* arguments, Inputs* inputs) const;
  /// Whether the operator may be run on them as they are.
  bool IsPlain(const Inputs& inputs) const;
  /// False where they are not what a kernel can read, which is an error below autograd.
  bool View(Inputs* inputs) const;
  std::shared_ptr<Prepared> FindPrepared(PyObject* keywords, const Inputs& inputs);
  std::shared_ptr<Node> MakeNode(PyObject* keywords);
  Status Check(const std::vector<std::int64_t>& types) const;
  Status Unreadable(const Input& input, std::size_t index) const;

  const std::string full_name_;
  const bool is_native_;
  std::shared_ptr<const Schema> schema_;
  const nanobind::object read_;
  const nanobind::object otherwise_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

/// Defines `TorchKernel` and `set_torch` in the module.
void DefineKernel(nanobind::module_& module);

}  // namespace opgraft::eager
