// The kernel of an ATen node: from ONNX Runtime's tensors to libtorch and back.
#pragma once

#include <cstddef>
#include <memory>

#include "aten/call.h"
#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/attributes.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// Reads what an ATen node says; a ModelError where it is in no encoding known here.
Status ReadAtenNode(const Attributes& attributes, aten::NodeText* text);

/// Thread-safe: the runtime's runs may overlap.
class AtenKernel {
 public:
  /// Reads and checks the node, asks the policy, and only then loads libtorch. This is the one gate
  /// that every node passes.
  static Status Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                       std::unique_ptr<AtenKernel>* kernel);

  Status Compute(OrtKernelContext* context) const;

  const OrtApi* api() const { return runtime_.api; }

 private:
  AtenKernel(const Runtime& runtime, std::size_t inputs, std::size_t outputs)
      : runtime_(runtime), inputs_(inputs), outputs_(outputs) {}

  const Runtime runtime_;
  const std::size_t inputs_;
  const std::size_t outputs_;
  std::unique_ptr<const aten::Call> call_;
};

}  // namespace opgraft::ort
