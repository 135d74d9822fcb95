// What torch calls for an operator of ours: on plain tensors it runs at once, without Python code
// of ours in between; all else is left to a function of opgraft.torch.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/schema.h"
#include "eager/dlpack.h"
#include "opgraft/status.h"
#include "pyop/callable.h"

// All here needs the GIL.
namespace opgraft::eager {

/// The inputs of one call, an absent one as nullptr and of type 0.
struct Inputs {
  std::vector<PyObject*> objects;
  std::vector<dlpack::Tensor> tensors;
  std::vector<std::int64_t> types;
  std::vector<nanobind::object> kept;  ///< what was made for the call
};

/// An operator, with its attributes, ready for inputs of certain types.
class Prepared {
 public:
  explicit Prepared(std::vector<std::int64_t> types) : types_(std::move(types)) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  virtual ~Prepared() = default;

  const std::vector<std::int64_t>& types() const { return types_; }
  /// Adds the outputs, as tensors of torch's. May throw nb::python_error, as may all that follows.
  virtual Status Run(Inputs& inputs, const dlpack::Exchange& exchange,
                     std::vector<nanobind::object>* outputs) = 0;

 private:
  const std::vector<std::int64_t> types_;
};

/// One that runs a Python function.
Status PreparePython(const Schema& schema, const pyop::PythonCallable& callable,
                     const std::vector<std::int64_t>& types, std::size_t outputs,
                     std::shared_ptr<Prepared>* made);
/// One that runs a pack's kernel.
Status PrepareNative(const std::shared_ptr<const Schema>& schema, const nanobind::dict& attributes,
                     const std::vector<std::int64_t>& types, std::size_t outputs,
                     std::shared_ptr<Prepared>* made);

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
  std::shared_ptr<Node> FindNode(PyObject* keywords);
  std::shared_ptr<Prepared> FindPrepared(Node& node, const Inputs& inputs) const;
  Status Check(const std::vector<std::int64_t>& types) const;
  Status Unreadable(const Inputs& inputs, std::size_t index) const;
  nanobind::object Arrange(std::vector<nanobind::object> outputs) const;

  const std::string full_name_;
  const bool is_native_;
  std::shared_ptr<const Schema> schema_;
  const nanobind::object read_;
  const nanobind::object otherwise_;
  std::vector<std::shared_ptr<Node>> nodes_;  // the one used last is the first
};

/// Defines `TorchKernel` and `set_torch` in the module.
void DefineKernel(nanobind::module_& module);

}  // namespace opgraft::eager
