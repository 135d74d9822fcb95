// Outputs that are arrays on a GPU, and go to the runtime's memory there.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "opgraft/status.h"
#include "pyop/bridge.h"
#include "pyop/gpu_arrays.h"
#include "pyop/outputs.h"

namespace opgraft::pyop {

class GpuOutputs final : public OutputStore {
 public:
  /// As OutputStore; `loan` is the call's.
  GpuOutputs(const Spec& spec, Call& call, const InferredShapes* inferred, bool keep_frames,
             const GpuLibrary& library, const Gpu& gpu, std::shared_ptr<Loan> loan)
      : OutputStore(spec, call, inferred, keep_frames),
        library_(library),
        gpu_(gpu),
        loan_(std::move(loan)) {}
  ~GpuOutputs() override;

 private:
  PyObject* MakeOutArray(const TensorView& tensor) override;
  bool IsIntact(PyObject* array, const TensorView& tensor) const override;
  PyObject* CopyOf(PyObject* value) const override;
  std::string Describe(PyObject* value) const override;
  Status StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const override;
  Status StoreOne(std::size_t index, PyObject* value, bool is_ours) const override;
  Status CopyFailed() const;

  const GpuLibrary& library_;
  const Gpu& gpu_;
  const std::shared_ptr<Loan> loan_;
  std::vector<void*> scratch_;  // in place of outputs that nobody wants
};

}  // namespace opgraft::pyop
