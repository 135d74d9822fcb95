// Converts between the pack contract and the InferenceContext of schemas.
#include "contrib/node.h"

#include <cstdint>
#include <limits>
#include <utility>

namespace opgraft::internal {
namespace {

using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::Dim;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::TensorShapeProto;
using ONNX_NAMESPACE::TypeProto;
using onnxruntime::DataTypeImpl;
using onnxruntime::Tensor;

TypeProto ToType(const OpgraftShape& known) {
  TypeProto type;
  type.mutable_tensor_type()->set_elem_type(known.element_type);
  if (known.has_rank == 0) return type;
  TensorShapeProto* const shape = type.mutable_tensor_type()->mutable_shape();
  for (std::size_t i = 0; i < known.rank; ++i) {
    const OpgraftDimension& one = known.dimensions[i];
    Dim* const dim = shape->add_dim();
    if (one.size >= 0) {
      dim->set_dim_value(one.size);
    } else if (one.symbol != nullptr && one.symbol[0] != '\0') {
      dim->set_dim_param(one.symbol);
    }
  }
  return type;
}

TensorProto ToProto(const OpgraftTensor& tensor) {
  std::vector<std::int64_t> dims(tensor.shape, tensor.shape + tensor.rank);
  const DataTypeImpl* const type = DataTypeImpl::Find(tensor.element_type);
  if (type == nullptr) return {};
  const auto size = static_cast<std::size_t>(onnxruntime::TensorShape(dims).Size());
  if (type == DataTypeImpl::GetType<std::string>()) {
    std::vector<std::string> strings(size);
    const auto* const texts = static_cast<const OpgraftText*>(tensor.data);
    for (std::size_t i = 0; i < size; ++i) strings[i].assign(texts[i].data, texts[i].size);
    return {tensor.element_type, std::move(dims), {}, std::move(strings)};
  }
  const std::string bytes(static_cast<const char*>(tensor.data), size * type->Size());
  return {tensor.element_type, std::move(dims), bytes, {}};
}

}  // namespace

InferredNode::InferredNode(const OperatorDefinition& definition, OpgraftInference* host)
    : definition_(definition),
      read_attribute_([this, host](std::size_t index) {
        return ReadAttribute(host, definition_.attributes[index]);
      }),
      read_constant_([host](std::size_t index) {
        OpgraftTensor tensor = {};
        Check(host->table->constant(host, index, &tensor));
        return tensor;
      }) {
  const std::size_t count = host->table->input_count(host);
  for (std::size_t i = 0; i < count; ++i) {
    OpgraftShape known = {};
    Check(host->table->input(host, i, &known));
    inputs_.push_back(known.element_type != 0 ? std::optional(ToType(known)) : std::nullopt);
  }
  const std::size_t outputs = host->table->output_count(host);
  const bool is_told = outputs != std::numeric_limits<std::size_t>::max();
  outputs_.resize(is_told ? outputs : definition.outputs.size());
}

InferredNode::InferredNode(const NodeState& state, const onnxruntime::OpKernelContext& context)
    : definition_(*state.definition),
      read_attribute_([&state](std::size_t index) { return state.attributes[index]; }),
      read_constant_([](std::size_t) { return OpgraftTensor{}; }) {
  for (int i = 0; i < context.InputCount(); ++i) {
    const Tensor* const tensor = context.Input<Tensor>(i);
    std::optional<TypeProto>& input = inputs_.emplace_back();
    if (tensor == nullptr) continue;
    input.emplace().mutable_tensor_type()->set_elem_type(tensor->GetElementType());
    TensorShapeProto* const shape = input->mutable_tensor_type()->mutable_shape();
    for (const std::int64_t size : tensor->Shape().GetDims()) shape->add_dim()->set_dim_value(size);
  }
  outputs_.resize(state.output_count);
}

const AttributeProto* InferredNode::getAttribute(const std::string& name) const {
  const auto known = attributes_.find(name);
  if (known != attributes_.end()) return known->second ? &*known->second : nullptr;
  std::optional<AttributeProto>& attribute = attributes_[name];
  for (std::size_t i = 0; i < definition_.attributes.size(); ++i) {
    if (definition_.attributes[i].name != name) continue;
    const AttributeValue value = read_attribute_(i);
    if (value.index() != 0) attribute.emplace(name, value);
  }
  return attribute ? &*attribute : nullptr;
}

const TypeProto* InferredNode::getInputType(std::size_t index) const {
  if (index >= inputs_.size()) return nullptr;
  const std::optional<TypeProto>& input = inputs_[index];
  return input ? &*input : nullptr;
}

const TensorProto* InferredNode::getInputData(std::size_t index) const {
  if (index >= inputs_.size()) return nullptr;
  auto known = constants_.find(index);
  if (known == constants_.end()) {
    const OpgraftTensor tensor = read_constant_(index);
    known = constants_.emplace(index, std::nullopt).first;
    if (tensor.element_type != 0) known->second = ToProto(tensor);
  }
  return known->second ? &*known->second : nullptr;
}

TypeProto* InferredNode::getOutputType(std::size_t index) {
  if (index >= outputs_.size()) {
    fail_type_inference("Output ", index, " is out of bounds: the node has ", outputs_.size());
  }
  return &outputs_[index];
}

/// Returns the type of an output for which the inference function has set only the shape.
std::int32_t InferredNode::TypeOf(std::size_t output) const {
  std::vector<std::int32_t> types;
  for (const std::optional<TypeProto>& input : inputs_) {
    types.push_back(input ? input->tensor_type().elem_type() : 0);
  }
  return definition_.OutputType(output, types);
}

void InferredNode::Tell(OpgraftInference* host) const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!ONNX_NAMESPACE::hasShape(outputs_[i])) continue;
    const ONNX_NAMESPACE::TypeProto_Tensor& tensor = outputs_[i].tensor_type();
    std::vector<OpgraftDimension> dimensions;
    for (const Dim& dim : tensor.shape().dim()) {
      if (dim.has_dim_value() && dim.dim_value() < 0) {
        fail_shape_inference("a size of output ", i, " would be ", dim.dim_value());
      }
      dimensions.push_back({dim.has_dim_value() ? dim.dim_value() : -1,
                            dim.has_dim_param() ? dim.dim_param().c_str() : nullptr});
    }
    const std::int32_t type = tensor.has_elem_type() ? tensor.elem_type() : TypeOf(i);
    const OpgraftShape known = {type, 1, dimensions.size(), dimensions.data()};
    Check(host->table->set_output(host, i, &known));
  }
}

}  // namespace opgraft::internal
