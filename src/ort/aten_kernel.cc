// Reads the node's attributes once, when the kernel is made; a run only touches tensors.
#include "ort/aten_kernel.h"

#include <array>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "aten/installed.h"
#include "aten/libtorch.h"
#include "core/element_type.h"
#include "ort/calls.h"
#include "ort/tensors.h"

namespace opgraft::ort {
namespace {

constexpr std::int64_t kEncoding = 1;

/// The runtime allots memory by the type that the graph gives an output, so that it must be the one
/// that the node says.
Status CheckOutputs(const OrtApi* api, const OrtKernelInfo* info, const std::string& who,
                    std::size_t outputs, const std::vector<aten::NodeOutput>& said) {
  for (std::size_t i = 0; i < outputs; ++i) {
    OrtTypeInfo* type_info = nullptr;
    OrtStatus* got = KernelInfo_GetOutputTypeInfo(api, info, i, &type_info);
    const std::string output = who + ": output " + std::to_string(i);
    GraphValue value;
    Status status = ReadValue(api, got, type_info, output, &value);
    if (!status.ok()) return status;
    if (value.element_type != 0 && value.element_type != said[i].element_type) {
      return Status::Model(output + " is " + ElementTypeName(said[i].element_type) +
                           " by the node's attribute 'results', but " +
                           ElementTypeName(value.element_type) + " in the graph");
    }
  }
  return Status();
}

class RuntimeOutputs final : public aten::Outputs {
 public:
  RuntimeOutputs(const OrtApi* api, OrtKernelContext* context, std::size_t outputs)
      : api_(api), context_(context), outputs_(outputs) {}

  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    *data = nullptr;
    if (index >= outputs_) return Status();
    OrtValue* value = nullptr;
    OrtStatus* status =
        KernelContext_GetOutput(api_, context_, index, shape.data(), shape.size(), &value);
    if (status == nullptr && value != nullptr) status = GetTensorMutableData(api_, value, data);
    return FromRuntime(api_, status);
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
                         ": a node as torch.onnx.export writes it has to be prepared first; open "
                         "the model by opgraft.InferenceSession, or prepare it (opgraft.prepare, "
                         "opgraft prepare MODEL PREPARED)");
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

Status AtenKernel::Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                          std::unique_ptr<AtenKernel>* kernel) {
  const OrtApi* const api = runtime.api;
  aten::NodeText text;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  const auto get_name = [&](char* out, std::size_t* size) {
    return KernelInfo_GetNodeName(api, info, out, size);
  };
  Status status = ReadText(api, get_name, &text.node);
  if (status.ok()) status = ReadAtenNode(KernelAttributes(runtime, info), &text);
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetInputCount(api, info, &inputs));
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetOutputCount(api, info, &outputs));
  aten::Operator op;
  if (status.ok()) status = aten::FindOperator(text, &op);
  if (!status.ok()) return status;
  if (!op.is_listed && !policy.AllowsOperator(op.schema.FullName())) {
    return policy.OperatorRefusal(text.Who(), op.schema.FullName());
  }
  const aten::Libtorch* libtorch = nullptr;
  status = aten::GetLibtorch(aten::FindInstalledTorch, &libtorch);
  if (!status.ok()) return Status(status.kind(), text.Who() + ": " + status.message());
  std::unique_ptr<AtenKernel> made(new AtenKernel(runtime, inputs, outputs));
  status = aten::Call::Make(*libtorch, text, op, inputs, outputs, &made->call_);
  if (status.ok()) status = CheckOutputs(api, info, text.Who(), outputs, made->call_->outputs());
  if (status.ok()) *kernel = std::move(made);
  return status;
}

Status AtenKernel::Compute(OrtKernelContext* context) const {
  std::array<std::byte, 1024> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size());
  std::pmr::vector<aten::InputTensor> inputs(inputs_, &memory);
  for (std::size_t i = 0; i < inputs_; ++i) {
    const OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetInput(api(), context, i, &value);
    TensorParts parts;
    if (status == nullptr && value != nullptr) {
      status = GetTensorParts(runtime_, value, &memory, &parts);
    }
    if (status != nullptr) return FromRuntime(api(), status);
    inputs[i] = {parts.data, parts.element_type, parts.shape};
  }
  RuntimeOutputs outputs(api(), context, outputs_);
  return call_->Run(inputs, outputs);
}

}  // namespace opgraft::ort
