// Outputs that are arrays on a GPU, stored in the runtime's memory there.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bridge/bridge.h"
#include "opgraft/status.h"
#include "python/call/outputs.h"
#include "python/gpu/gpu_arrays.h"

namespace opgraft::pyop {

class GpuOutputs final : public OutputStore {
 public:
  /// `loan` belongs to the call; for the other arguments see OutputStore.
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
  std::vector<void*> scratch_;  // memory for `out` arrays of outputs that are not wanted
};

}  // namespace opgraft::pyop
