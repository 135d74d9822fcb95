// The kernel of a canonical PyOp node: from ONNX Runtime's tensors to the Python operator and back.
#pragma once

#include <memory>
#include <vector>

#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/runtime.h"
#include "pyop/bridge.h"

namespace opgraft::ort {

/// Thread-safe: the runtime's runs may overlap.
class PyOpKernel {
 public:
  /// Reads and checks the node, asks the policy, and makes the Python object. This is the one gate
  /// that every node passes on its way to Python, whoever prepared the model.
  static Status Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                       std::unique_ptr<PyOpKernel>* kernel);

  Status Compute(OrtKernelContext* context) const;

  const OrtApi* api() const { return runtime_.api; }

 private:
  PyOpKernel(const Runtime& runtime, pyop::Spec spec, std::size_t inputs)
      : runtime_(runtime), spec_(std::move(spec)), inputs_(inputs) {}

  const Runtime runtime_;
  const pyop::Spec spec_;
  const std::size_t inputs_;
  std::unique_ptr<pyop::Operator> operator_;
};

}  // namespace opgraft::ort
