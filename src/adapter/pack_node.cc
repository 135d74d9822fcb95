// Implements the functions with the runtime's kernel info.
#include "adapter/pack_node.h"

#include <utility>

#include "adapter/calls.h"
#include "adapter/tensors.h"
#include "base/pack_error.h"

namespace opgraft::ort {

const OpgraftNodeTable PackNode::kTable = {&Fail,      &Name,      &InputCount, &OutputCount,
                                           &InputType, &Attribute, &Constant};

PackNode::PackNode(const Runtime& runtime, const OrtKernelInfo* info)
    : OpgraftNode{&kTable}, runtime_(runtime), info_(info), attributes_(runtime, info) {}

Status PackNode::Read(std::string_view operator_name) {
  const OrtApi* const api = runtime_.api;
  const auto get_name = [&](char* out, std::size_t* size) {
    return KernelInfo_GetNodeName(api, info_, out, size);
  };
  Status status = ReadText(api, get_name, &name_);
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetInputCount(api, info_, &inputs_));
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetOutputCount(api, info_, &outputs_));
  if (!status.ok() || !name_.empty()) return status;
  const auto get_output = [&](char* out, std::size_t* size) {
    return KernelInfo_GetOutputName(api, info_, 0, out, size);
  };
  std::string output;
  if (outputs_ > 0) static_cast<void>(ReadText(api, get_output, &output));
  name_ = std::string(operator_name) + "_" + output;
  return Status();
}

void PackNode::Fail(OpgraftNode* self, const OpgraftError* error) {
  Self(self).errors_.Report(*error);
}

OpgraftText PackNode::Name(OpgraftNode* self) {
  return {Self(self).name_.data(), Self(self).name_.size()};
}

int PackNode::InputType(OpgraftNode* self, std::size_t index, std::int32_t* type) {
  PackNode& node = Self(self);
  const OrtApi* const api = node.runtime_.api;
  OrtTypeInfo* type_info = nullptr;
  OrtStatus* const got = KernelInfo_GetInputTypeInfo(api, node.info_, index, &type_info);
  GraphValue value;
  Status status = ReadValue(api, got, type_info, "input " + std::to_string(index), &value);
  *type = value.element_type;
  return node.errors_.Keep(std::move(status));
}

int PackNode::Attribute(OpgraftNode* self, const char* name, std::int32_t kind,
                        OpgraftAttribute* attribute) {
  PackNode& node = Self(self);
  Status status =
      node.values_.emplace_back(node.runtime_).Read(node.attributes_, name, kind, attribute);
  return node.errors_.Keep(std::move(status));
}

Status PackNode::ReadConstant(std::size_t index, OpgraftTensor* tensor) {
  const OrtApi* const api = runtime_.api;
  int is_constant = 0;
  const OrtValue* value = nullptr;
  Status status =
      FromRuntime(api, KernelInfoGetConstantInput_tensor(api, info_, index, &is_constant, &value));
  if (!status.ok() || is_constant == 0 || value == nullptr) return status;
  return ToContract(runtime_, value, &memory_, &storages_.emplace_back(), &texts_.emplace_back(),
                    tensor);
}

int PackNode::Constant(OpgraftNode* self, std::size_t index, OpgraftTensor* tensor) {
  *tensor = {};
  return Self(self).errors_.Keep(Self(self).ReadConstant(index, tensor));
}

}  // namespace opgraft::ort
