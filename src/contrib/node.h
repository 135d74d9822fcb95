// A node as the inference function of a schema sees it: while a model is loaded, and in a run.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/contrib/inference.h"
#include "opgraft/contrib/op_kernel.h"
#include "opgraft/definition.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

class InferredNode final : public ONNX_NAMESPACE::InferenceContext {
 public:
  /// A node of a model that is being loaded. Valid during the host's call.
  InferredNode(const OperatorDefinition& definition, OpgraftInference* host);
  /// A node that is being run, so that all its shapes are known.
  InferredNode(const NodeState& state, const onnxruntime::OpKernelContext& context);

  const ONNX_NAMESPACE::AttributeProto* getAttribute(const std::string& name) const override;
  std::size_t getNumInputs() const override { return inputs_.size(); }
  const ONNX_NAMESPACE::TypeProto* getInputType(std::size_t index) const override;
  const ONNX_NAMESPACE::TensorProto* getInputData(std::size_t index) const override;
  std::size_t getNumOutputs() const override { return outputs_.size(); }
  ONNX_NAMESPACE::TypeProto* getOutputType(std::size_t index) override;

  /// Passes what the inference function has found to the host.
  void Tell(OpgraftInference* host) const;

 private:
  std::int32_t TypeOf(std::size_t output) const;

  const OperatorDefinition& definition_;
  std::vector<std::optional<ONNX_NAMESPACE::TypeProto>> inputs_;
  std::vector<ONNX_NAMESPACE::TypeProto> outputs_;
  std::function<AttributeValue(std::size_t)> read_attribute_;
  std::function<OpgraftTensor(std::size_t)> read_constant_;
  // Read on first use.
  mutable std::map<std::string, std::optional<ONNX_NAMESPACE::AttributeProto>> attributes_;
  mutable std::map<std::size_t, std::optional<ONNX_NAMESPACE::TensorProto>> constants_;
};

}  // namespace opgraft::internal
#pragma GCC visibility pop
