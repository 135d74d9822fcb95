// The kernel of a canonical PyOp node: passes ONNX Runtime's tensors to the Python operator and its
// results back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapter/runtime.h"
#include "bridge/bridge.h"
#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "workers/options.h"

namespace opgraft::ort {

/// The device that a kernel is created for.
enum class PyOpDevice : std::uint8_t {
  kCpu,
  kGpu,
  kMissingGpu,  ///< an operator that needs a GPU, in a session that runs it on the CPU
};

/// Thread-safe: the runtime's runs may overlap.
class PyOpKernel {
 public:
  /// Reads and checks the node, asks the policy, and creates the Python object. Every node passes
  /// through this function on its way to Python, whoever prepared the model. `isolation` says how
  /// the session runs its operators in worker processes; nullptr if it does not.
  static Status Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                       const workers::Options* isolation, PyOpDevice device,
                       std::unique_ptr<PyOpKernel>* kernel);

  /// The same for a node that has been read: its name, its operator, the types of its outputs, and
  /// its attributes.
  static Status Create(const Runtime& runtime, const OrtKernelInfo* info, pyop::Spec spec,
                       const Policy& policy, const workers::Options* isolation, PyOpDevice device,
                       std::unique_ptr<PyOpKernel>* kernel);

  Status Compute(OrtKernelContext* context) const;

  const OrtApi* api() const { return runtime_.api; }

 private:
  /// Makes the operator in a worker process if it is to run there; else leaves it to be made here.
  Status CreateIsolated(const Policy& policy, const workers::Options* isolation);

  PyOpKernel(const Runtime& runtime, pyop::Spec spec, std::size_t inputs)
      : runtime_(runtime), spec_(std::move(spec)), inputs_(inputs) {}

  const Runtime runtime_;
  const pyop::Spec spec_;
  const std::size_t inputs_;
  std::unique_ptr<pyop::Gpu> gpu_;  ///< nullptr for an operator that runs on the CPU
  std::unique_ptr<pyop::Operator> operator_;
};

Status ReadNodeName(const OrtApi* api, const OrtKernelInfo* info, std::string* name);

/// KernelComputeV2 and KernelDestroy of the custom operators that have this kernel.
OrtStatus* ComputePyOp(void* kernel, OrtKernelContext* context);
void DestroyPyOp(void* kernel);

}  // namespace opgraft::ort
