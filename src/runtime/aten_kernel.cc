// Reads the node's attributes once, when the kernel is created; a run only handles tensors.
#include "runtime/aten_kernel.h"

#include <array>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapter/calls.h"
#include "adapter/running.h"
#include "adapter/tensors.h"
#include "aten/libtorch.h"
#include "base/element_type.h"
#include "runtime/installed_torch.h"

namespace opgraft::ort {
namespace {

constexpr std::int64_t kEncoding = 1;

class RuntimeOutputs final : public aten::Outputs {
 public:
  RuntimeOutputs(const OrtApi* api, OrtKernelContext* context, std::size_t outputs)
      : api_(api), context_(context), outputs_(outputs) {}

  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    *data = nullptr;
    if (index >= outputs_) return Status();
    bool is_wanted = false;
    return AllocateOutput(api_, context_, index, shape, &is_wanted, data);
  }

 private:
  const OrtApi* const api_;
  OrtKernelContext* const context_;
  const std::size_t outputs_;
};

}  // namespace

Status ReadAtenNode(const Attributes& attributes, aten::NodeText* text) {
  std::int64_t encoding = 0;
  attributes.Read("operator", &text->operator_name);
  attributes.Read("overload_name", &text->overload);
  const bool has_encoding = attributes.Read("encoding", &encoding);
  if (text->operator_name.empty()) {
    return Status::Model(text->Who() + ": attribute 'operator' is missing");
  }
  if (!has_encoding) {
    return Status::Model(text->Who() +
                         ": a node in the form that torch.onnx.export writes must be prepared "
                         "first. Fix: open the model with opgraft.InferenceSession, or prepare it "
                         "(opgraft.prepare, opgraft prepare MODEL PREPARED)");
  }
  if (encoding != kEncoding) {
    return Status::Model(text->Who() + ": the node is in encoding " + std::to_string(encoding) +
                         ", this Opgraft reads encoding " + std::to_string(kEncoding) +
                         "; install a newer one, or export the model again");
  }
  attributes.Read("arguments", &text->arguments);
  attributes.Read("results", &text->outputs);
  return Status();
}

Status OpenAtenNode(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                    AtenNode* node) {
  const OrtApi* const api = runtime.api;
  aten::NodeText& text = node->text;
  const auto get_name = [&](char* out, std::size_t* size) {
    return KernelInfo_GetNodeName(api, info, out, size);
  };
  Status status = ReadText(api, get_name, &text.node);
  const KernelAttributes attributes(runtime, info);
  if (status.ok()) {
    status = attributes.CheckTexts("node '" + text.node + "'",
                                   {"operator", "overload_name", "arguments", "results"});
  }
  if (status.ok()) status = ReadAtenNode(attributes, &text);
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetInputCount(api, info, &node->inputs));
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetOutputCount(api, info, &node->outputs));
  if (status.ok()) status = aten::FindOperator(text, &node->op);
  if (!status.ok()) return status;
  if (!node->op.is_listed && !policy.AllowsOperator(node->op.schema.FullName())) {
    return policy.OperatorRefusal(text.Who(), node->op.schema.FullName());
  }
  status = aten::GetLibtorch(aten::FindInstalledTorch, &node->libtorch);
  return status.ok() ? status : Status(status.kind(), text.Who() + ": " + status.message());
}

Status CheckOutputs(const OrtApi* api, const OrtKernelInfo* info, const AtenNode& node,
                    const std::vector<aten::NodeOutput>& declared) {
  for (std::size_t i = 0; i < node.outputs; ++i) {
    OrtTypeInfo* type_info = nullptr;
    OrtStatus* got = KernelInfo_GetOutputTypeInfo(api, info, i, &type_info);
    const std::string output = node.text.Who() + ": output " + std::to_string(i);
    GraphValue value;
    Status status = ReadValue(api, got, type_info, output, &value);
    if (!status.ok()) return status;
    if (value.element_type != 0 && value.element_type != declared[i].element_type) {
      return Status::Model(output + " is " + ElementTypeName(declared[i].element_type) +
                           " by the node's attribute 'results', but " +
                           ElementTypeName(value.element_type) + " in the graph");
    }
  }
  return Status();
}

Status ReadInputs(const Runtime& runtime, const OrtKernelContext* context,
                  std::pmr::memory_resource* memory, std::span<aten::InputTensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetInput(runtime.api, context, i, &value);
    TensorParts parts;
    if (status == nullptr && value != nullptr) {
      status = GetTensorParts(runtime, value, memory, &parts);
    }
    if (status != nullptr) return FromRuntime(runtime.api, status);
    inputs[i].data = parts.data;
    inputs[i].element_type = parts.element_type;
    inputs[i].shape = parts.shape;
  }
  return Status();
}

Status AllocateOutput(const OrtApi* api, OrtKernelContext* context, std::size_t index,
                      std::span<const std::int64_t> shape, bool* is_wanted, void** data) {
  OrtValue* value = nullptr;
  OrtStatus* status =
      KernelContext_GetOutput(api, context, index, shape.data(), shape.size(), &value);
  *is_wanted = value != nullptr;
  if (status == nullptr && value != nullptr) status = GetTensorMutableData(api, value, data);
  return FromRuntime(api, status);
}

Status AtenKernel::Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                          std::unique_ptr<AtenKernel>* kernel) {
  AtenNode node;
  Status status = OpenAtenNode(runtime, info, policy, &node);
  if (!status.ok()) return status;
  std::unique_ptr<AtenKernel> made(new AtenKernel(runtime, node.inputs, node.outputs));
  status = aten::Call::Make(*node.libtorch, nullptr, node.text, node.op, node.inputs, node.outputs,
                            &made->call_);
  if (status.ok()) status = CheckOutputs(runtime.api, info, node, made->call_->outputs());
  made->who_ = node.text.Who();
  if (status.ok()) *kernel = std::move(made);
  return status;
}

Status AtenKernel::Compute(OrtKernelContext* context) const {
  std::array<std::byte, 1024> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size());
  std::pmr::vector<aten::InputTensor> inputs(inputs_, &memory);
  Status status = ReadInputs(runtime_, context, &memory, inputs);
  if (!status.ok()) return status;
  RuntimeOutputs outputs(api(), context, outputs_);
  const Running running([this] { return who_; });
  return call_->Run(inputs, outputs);
}

}  // namespace opgraft::ort
