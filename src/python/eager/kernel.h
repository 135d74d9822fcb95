// The object that torch calls for an operator of ours: on plain tensors it runs the operator
// directly, without Python code of ours in between; other calls go to a function of opgraft.torch.
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
#include "opgraft/status.h"
#include "python/call/callable.h"
#include "python/call/dlpack.h"
#include "python/eager/arguments.h"

// Everything here needs the GIL.
namespace opgraft::eager {

using Outputs = std::pmr::vector<nanobind::object>;

/// An operator that is prepared for certain attributes and types of inputs.
class Prepared {
 public:
  Prepared(std::shared_ptr<const Schema> schema, std::vector<std::int64_t> types)
      : schema_(std::move(schema)), types_(std::move(types)) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  virtual ~Prepared() = default;

  bool IsFor(const Inputs& inputs) const;
  const Schema& schema() const { return *schema_; }
  /// Adds the outputs, as torch tensors. Like everything below, may throw nb::python_error.
  virtual Status Run(Inputs& inputs, const dlpack::Exchange& exchange, Outputs* outputs) = 0;

 private:
  const std::shared_ptr<const Schema> schema_;  // kept, since the operator may be declared again
  const std::vector<std::int64_t> types_;
};

/// Returns the outputs' types for inputs of these types; 0 if it is the type of an absent input.
std::vector<std::int64_t> OutputTypes(const Schema& schema, const std::vector<std::int64_t>& types,
                                      std::size_t outputs);

/// Prepares an operator that runs a Python function.
Status PreparePython(const std::shared_ptr<const Schema>& schema,
                     const pyop::PythonCallable& callable, const std::vector<std::int64_t>& types,
                     std::size_t outputs, std::shared_ptr<Prepared>* made);
/// Prepares an operator that runs a pack's kernel.
Status PrepareNative(const std::shared_ptr<const Schema>& schema, const nanobind::dict& attributes,
                     const std::vector<std::int64_t>& types, std::size_t outputs,
                     std::shared_ptr<Prepared>* made);

/// Sets the address of libtorch's `torch_parallel_for`, for the loops of packs' kernels; 0 for
/// none.
void SetParallelFor(std::uintptr_t address);

/// An operator, and what was prepared for its earlier calls.
class Callee {
 public:
  /// `read` turns the keyword arguments of a call into the attributes, by their declared names, and
  /// the number of outputs.
  Callee(std::string full_name, bool is_native, nanobind::object read);

  const Schema& schema() const { return *schema_; }
  std::shared_ptr<Prepared> Find(PyObject* keywords, const Inputs& inputs);

  /// Switches to the current declaration of the operator.
  void Reload();

  /// Returns the outputs' types for inputs of these types; raises an Error if they do not fit.
  std::vector<std::int64_t> OutputTypes(const std::vector<std::int64_t>& types,
                                        std::size_t outputs) const;

 private:
  /// A set of attributes from an earlier call.
  struct Node {
    nanobind::object keywords;
    nanobind::dict attributes;
    std::size_t outputs = 0;
    pyop::PythonCallable callable;  // for a Python operator only
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
  /// `otherwise` is called instead of the operator if the tensors are not plain or a gradient is
  /// wanted. None means that the operator is always run.
  Kernel(std::shared_ptr<Callee> callee, nanobind::object otherwise)
      : callee_(std::move(callee)), otherwise_(std::move(otherwise)) {}

  nanobind::object Call(PyObject* arguments, PyObject* keywords);
  Callee& callee() { return *callee_; }
  /// Returns a kernel of the same operator with another `otherwise`.
  Kernel With(nanobind::object otherwise) const { return {callee_, std::move(otherwise)}; }

 private:
  std::shared_ptr<Callee> callee_;
  nanobind::object otherwise_;
};

/// Defines `TorchKernel` and `set_torch` in the module.
void DefineKernel(nanobind::module_& module);

}  // namespace opgraft::eager
