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
#include "eager/arguments.h"
#include "eager/dlpack.h"
#include "opgraft/status.h"
#include "pyop/callable.h"

// All here needs the GIL.
namespace opgraft::eager {

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

/// An operator, and what has been made for its calls.
class Callee {
 public:
  /// `read` makes of the keyword arguments of a call the attributes, by their declared names, and
  /// the number of outputs.
  Callee(std::string full_name, bool is_native, nanobind::object read);

  const Schema& schema() const { return *schema_; }
  std::shared_ptr<Prepared> Find(PyObject* keywords, const Inputs& inputs);

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

  std::shared_ptr<Node> MakeNode(PyObject* keywords);
  Status Check(const std::vector<std::int64_t>& types) const;

  const std::string full_name_;
  const bool is_native_;
  std::shared_ptr<const Schema> schema_;
  const nanobind::object read_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

class Kernel {
 public:
  /// `otherwise` is called in place of the operator where the tensors are not plain, or a gradient
  /// is wanted; None: never.
  Kernel(std::shared_ptr<Callee> callee, nanobind::object otherwise)
      : callee_(std::move(callee)), otherwise_(std::move(otherwise)) {}

  nanobind::object Call(PyObject* arguments, PyObject* keywords);
  Callee& callee() { return *callee_; }
  /// A kernel of the same operator.
  Kernel With(nanobind::object otherwise) const { return {callee_, std::move(otherwise)}; }

 private:
  std::shared_ptr<Callee> callee_;
  nanobind::object otherwise_;
};

/// Defines `TorchKernel` and `set_torch` in the module.
void DefineKernel(nanobind::module_& module);

}  // namespace opgraft::eager
