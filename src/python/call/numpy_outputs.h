// Outputs that are NumPy arrays, stored in the host's memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>

#include "opgraft/status.h"
#include "python/call/outputs.h"

namespace opgraft::pyop {

class NumPyOutputs : public OutputStore {
 public:
  using OutputStore::OutputStore;

 private:
  PyObject* MakeOutArray(const TensorView& tensor) override;
  bool IsIntact(PyObject* array, const TensorView& tensor) const override;
  PyObject* CopyOf(PyObject* value) const override;
  std::string Describe(PyObject* value) const override;
  Status StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const override;
  Status StoreOne(std::size_t index, PyObject* value, bool is_ours) const override;
};

}  // namespace opgraft::pyop
