// Reads the arguments of a call by torch, as views of the tensors' memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "core/schema.h"
#include "opgraft/status.h"
#include "python/call/dlpack.h"

// Everything here needs the GIL and may throw nb::python_error.
namespace opgraft::eager {

/// Takes a new reference; throws the Python error that is set if it is nullptr.
inline nanobind::object Checked(PyObject* result) {
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
}

struct Input {
  PyObject* object = nullptr;  ///< nullptr if the input is absent
  dlpack::Tensor tensor = {};
  std::int64_t type = 0;  ///< ONNX's number; 0 if the input is absent or ONNX lacks its type
};

/// The inputs of one call. All vectors of a call use its memory resource, which costs no allocation
/// while they are small.
struct Inputs {
  explicit Inputs(std::pmr::memory_resource* call_memory) : memory(call_memory), all(call_memory) {}

  std::pmr::memory_resource* memory;
  std::pmr::vector<Input> all;
  std::vector<nanobind::object> kept;  ///< objects that were made for the call
};

/// Collects the inputs from a call's arguments in one list, without the absent ones at its end.
/// Does not look at the tensors yet.
void ReadInputs(const Schema& schema, PyObject* arguments, Inputs* inputs);

/// Returns whether an operator may run on the inputs directly: no input is of a subclass, no
/// dispatch mode is active in this thread, and no derivative is wanted.
bool IsPlain(const Inputs& inputs);

/// Looks at the tensors. Returns false if some cannot be read or have a type that ONNX lacks.
bool View(Inputs* inputs);

/// Returns why an input cannot be read and how to fix it, or OK if it can be read.
Status CheckReadable(const Schema& schema, const Input& input, std::size_t index);

/// torch's DLPack functions. `set_torch` must have been called.
const dlpack::Exchange& TorchExchange();

/// Defines `set_torch` in the module.
void DefineTorch(nanobind::module_& module);

}  // namespace opgraft::eager
