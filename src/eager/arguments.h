// The arguments of a call by torch, as views of the tensors' memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "core/schema.h"
#include "eager/dlpack.h"
#include "opgraft/status.h"

// All here needs the GIL, and may throw nb::python_error.
namespace opgraft::eager {

/// A new reference, or the Python error that is set.
inline nanobind::object Checked(PyObject* result) {
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

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

/// The inputs among the arguments of a call, in one list; those that are absent at its end are left
/// out. Nothing is known of the tensors yet.
void ReadInputs(const Schema& schema, PyObject* arguments, Inputs* inputs);

/// Whether an operator may be run on them as they are: none is of a kind of its own, nobody watches
/// the operators of this thread, and nobody wants a derivative.
bool IsPlain(const Inputs& inputs);

/// Looks at the tensors. False where some are not what can be read, or of a type that ONNX lacks.
bool View(Inputs* inputs);

/// What is wrong with one that cannot be read, and what to do; OK where nothing is.
Status CheckReadable(const Schema& schema, const Input& input, std::size_t index);

/// torch's functions; once they are set.
const dlpack::Exchange& TorchExchange();

/// Defines `set_torch` in the module.
void DefineTorch(nanobind::module_& module);

}  // namespace opgraft::eager
