// The place of a declared operator that runs on a GPU: a call puts all its work on the stream of
// the run, which executes it in order, and never waits.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bridge/bridge.h"
#include "python/call/callable.h"
#include "python/call/invocation.h"
#include "python/gpu/gpu_arrays.h"
#include "python/gpu/gpu_outputs.h"

namespace opgraft::pyop {

/// See PythonOperator, and CallFunction for the turn.
class GpuPlace {
 public:
  /// The GPU must outlive this.
  explicit GpuPlace(const Gpu& gpu) : gpu_(gpu) {}

  Status Find(const Spec& spec) { return GpuLibrary::Find(spec, gpu_, &library_); }
  void Clear() { library_ = GpuLibrary(); }
  void Forget() { library_.Forget(); }

  class Turn {
   public:
    Turn(GpuPlace& place, const Spec& spec, const PythonCallable& callable, Call& call)
        : place_(place), spec_(spec), callable_(callable), call_(call) {}

    std::span<const TensorView> inputs() const { return call_.inputs(); }
    bool HoldsArguments();
    std::string HowToCopy() const { return place_.library_.HowTo("how_to_copy"); }
    bool KeepsFrames() const { return callable_.copy_inputs; }
    void Begin(const InferredShapes* inferred);
    PyObject* Make(std::size_t index, Status* status);
    Status MakeOut(Arguments* arguments) { return outputs_->MakeOut(arguments); }
    Status Store(const nanobind::object& returned, std::span<PyObject* const> out) {
      return outputs_->Store(returned.ptr(), out);
    }
    bool Release(Arguments* arguments);
    Status Finish() { return Status(); }

   private:
    GpuPlace& place_;
    const Spec& spec_;
    const PythonCallable& callable_;
    Call& call_;
    std::optional<OnStream> on_stream_;
    std::shared_ptr<Loan> loan_;
    std::optional<GpuOutputs> outputs_;
  };

 private:
  const Gpu& gpu_;
  GpuLibrary library_;
  std::vector<std::shared_ptr<Loan>> kept_;  // loans of calls whose arguments the operator has kept
};

}  // namespace opgraft::pyop
