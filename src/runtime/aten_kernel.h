// The kernel of an ATen node: passes ONNX Runtime's tensors to libtorch and its results back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "adapter/attributes.h"
#include "adapter/runtime.h"
#include "aten/call.h"
#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// Reads the attributes of an ATen node; a ModelError if its encoding is not known.
Status ReadAtenNode(const Attributes& attributes, aten::NodeText* text);

/// A node that has passed all checks and may run.
struct AtenNode {
  aten::NodeText text;
  aten::Operator op;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  const aten::Libtorch* libtorch = nullptr;
};

/// Reads and checks the node, asks the policy, and only then loads libtorch. Every node passes
/// through this function, wherever it runs.
Status OpenAtenNode(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                    AtenNode* node);

/// The runtime allocates memory by the type that an output has in the graph, so that it must be the
/// type that the node declares.
Status CheckOutputs(const OrtApi* api, const OrtKernelInfo* info, const AtenNode& node,
                    const std::vector<aten::NodeOutput>& declared);

/// Reads the inputs of a run as views of the runtime's memory; shapes may be stored in `memory`.
Status ReadInputs(const Runtime& runtime, const OrtKernelContext* context,
                  std::pmr::memory_resource* memory, std::span<aten::InputTensor> inputs);

/// Allocates an output in the runtime; sets `is_wanted` to whether the node has it.
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
