// The kernel of an ATen node: from ONNX Runtime's tensors to libtorch and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "aten/call.h"
#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/attributes.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// Reads what an ATen node says; a ModelError where it is in no encoding known here.
Status ReadAtenNode(const Attributes& attributes, aten::NodeText* text);

/// A node that may run.
struct AtenNode {
  aten::NodeText text;
  aten::Operator op;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  const aten::Libtorch* libtorch = nullptr;
};

/// Reads and checks the node, asks the policy, and only then loads libtorch. This is the one gate
/// that every node passes, wherever it runs.
Status OpenAtenNode(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                    AtenNode* node);

/// The runtime allots memory by the type that the graph gives an output, so that it must be the one
/// that the node says.
Status CheckOutputs(const OrtApi* api, const OrtKernelInfo* info, const AtenNode& node,
                    const std::vector<aten::NodeOutput>& said);

/// The inputs of a run, where they lie; shapes may be in `memory`.
Status ReadInputs(const Runtime& runtime, const OrtKernelContext* context,
                  std::pmr::memory_resource* memory, std::span<aten::InputTensor> inputs);

/// The runtime's memory for an output, if `is_wanted`.
Status AllocateOutput(const OrtApi* api, OrtKernelContext* context, std::size_t index,
                      std::span<const std::int64_t> shape, bool* is_wanted, void** data);

/// Thread-safe: the runtime's runs may overlap.
class AtenKernel {
 public:
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
  std::string who_;
  std::unique_ptr<const aten::Call> call_;
};

}  // namespace opgraft::ort
