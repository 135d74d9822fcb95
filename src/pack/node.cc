// The node of a pack's kernel, and the shapes of its outputs.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/element_type.h"
#include "base/output_type.h"
#include "opgraft/kernel.h"

namespace opgraft::internal {
namespace {

std::string ToString(const OpgraftText& text) { return {text.data, text.size}; }

TensorValue ToValue(const OpgraftTensor& tensor) {
  std::vector<std::int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  if (tensor.element_type == kElementType<std::string>) {
    return {tensor.element_type, std::move(shape), {}, ToStrings(tensor, 0)};
  }
  // Only the types that C++ has a type for.
  const ElementType* const type = FindElementType(tensor.element_type);
  if (type == nullptr || !type->is_carried || type->number > kElementType<BFloat16>) {
    throw std::invalid_argument("a tensor of ONNX's type number " +
                                std::to_string(tensor.element_type) +
                                " cannot be the value of an attribute");
  }
  std::size_t size = type->size;
  for (const std::int64_t one : shape) size *= static_cast<std::size_t>(one);
  const auto* const first = static_cast<const std::byte*>(tensor.data);
  return {tensor.element_type, std::move(shape), std::vector<std::byte>(first, first + size), {}};
}

AttributeValue ToValue(const OpgraftAttribute& attribute) {
  const std::size_t count = attribute.count;
  switch (attribute.kind) {
    case kAttributeKind<float>: return attribute.floats[0];
    case kAttributeKind<std::int64_t>: return attribute.integers[0];
    case kAttributeKind<std::string>: return ToString(attribute.texts[0]);
    case kAttributeKind<TensorValue>: return ToValue(attribute.tensors[0]);
    case kAttributeKind<std::vector<float>>:
      return std::vector<float>(attribute.floats, attribute.floats + count);
    case kAttributeKind<std::vector<std::int64_t>>:
      return std::vector<std::int64_t>(attribute.integers, attribute.integers + count);
    case kAttributeKind<std::vector<std::string>>: {
      std::vector<std::string> texts;
      for (std::size_t i = 0; i < count; ++i) texts.push_back(ToString(attribute.texts[i]));
      return texts;
    }
    default: return {};
  }
}

/// Returns nullptr if no attribute of this name is declared.
const AttributeDefinition* FindAttribute(const OperatorDefinition& definition,
                                         std::string_view name) {
  for (const AttributeDefinition& attribute : definition.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

bool HasVariadicOutput(const OperatorDefinition& definition) {
  return !definition.outputs.empty() && definition.outputs.back().occurrence == OPGRAFT_VARIADIC;
}

/// Throws if a rule sets an output that the operator does not have: some runtimes would abort.
void CheckOutput(const OperatorDefinition& definition, std::size_t index) {
  if (index < definition.outputs.size() || HasVariadicOutput(definition)) return;
  throw ShapeError("the shape rule sets output " + std::to_string(index) +
                   ", but the operator has " + std::to_string(definition.outputs.size()));
}

/// "output 'y'"
std::string OutputName(const NodeState& state, std::size_t index) {
  const std::vector<ParameterDefinition>& outputs = state.definition->outputs;
  std::string name = "output '" + OperatorDefinition::At(outputs, index).name + "'";
  if (index >= outputs.size()) name += " (" + std::to_string(index) + ")";
  return name;
}

/// Stored in place of the rank of an absent input or an unknown shape.
constexpr std::int64_t kNoShape = -1;

/// Whether the inputs have the shapes that a ShapeMemory holds.
bool HasShapes(std::span<const OpgraftTensor> inputs, std::span<const std::int64_t> shapes) {
  for (const OpgraftTensor& input : inputs) {
    const bool is_there = input.element_type != 0;
    const std::size_t rank = is_there ? input.rank : 0;
    if (shapes.size() < 1 + rank ||
        shapes[0] != (is_there ? static_cast<std::int64_t>(rank) : kNoShape) ||
        !std::equal(input.shape, input.shape + rank, shapes.begin() + 1)) {
      return false;
    }
    shapes = shapes.subspan(1 + rank);
  }
  return shapes.empty();
}

/// The shapes of a run, where all sizes are known.
class RunShapes final : public ShapeContext {
 public:
  RunShapes(const NodeState& state, std::span<const OpgraftTensor> inputs, std::size_t outputs)
      : state_(state), inputs_(inputs), outputs_(outputs) {}

  std::size_t input_count() const override { return inputs_.size(); }
  std::optional<std::size_t> output_count() const override { return outputs_.size(); }
  bool HasInput(std::size_t index) const override {
    return index < inputs_.size() && inputs_[index].element_type != 0;
  }
  std::optional<Shape> Input(std::size_t index) const override {
    if (!HasInput(index)) return std::nullopt;
    return Shape(inputs_[index].shape, inputs_[index].shape + inputs_[index].rank);
  }
  AttributeValue AnyAttribute(std::string_view name) const override {
    return state_.Attribute(name);
  }
  std::optional<std::vector<std::int64_t>> Integers(std::size_t index) const override {
    if (!HasInput(index)) return std::nullopt;
    state_.CheckOnHost(index, "the shape rule");
    has_read_elements_ = true;
    return ToIntegers(inputs_[index]);
  }
  std::size_t IndexOf(std::string_view name) const override {
    return OperatorDefinition::IndexOf(state_.definition->inputs, name);
  }
  void SetOutput(std::size_t index, Shape shape) override {
    CheckOutput(*state_.definition, index);
    if (index < outputs_.size()) outputs_[index] = std::move(shape);
  }

  const std::optional<Shape>& output(std::size_t index) const { return outputs_[index]; }
  /// Whether the rule has used more than shapes.
  bool has_read_elements() const { return has_read_elements_; }

  static std::optional<std::vector<std::int64_t>> ToIntegers(const OpgraftTensor& tensor);

 private:
  const NodeState& state_;
  const std::span<const OpgraftTensor> inputs_;
  std::vector<std::optional<Shape>> outputs_;
  mutable bool has_read_elements_ = false;
};

std::optional<std::vector<std::int64_t>> RunShapes::ToIntegers(const OpgraftTensor& tensor) {
  const std::span<const std::int64_t> shape(tensor.shape, tensor.rank);
  if (tensor.element_type == kElementType<std::int64_t>) {
    const Tensor<const std::int64_t> view(static_cast<const std::int64_t*>(tensor.data), shape);
    return std::vector<std::int64_t>(view.begin(), view.end());
  }
  if (tensor.element_type == kElementType<std::int32_t>) {
    const Tensor<const std::int32_t> view(static_cast<const std::int32_t*>(tensor.data), shape);
    return std::vector<std::int64_t>(view.begin(), view.end());
  }
  return std::nullopt;
}

/// The shapes of a node during inference, where sizes need not be known.
class InferredShapes final : public ShapeContext {
 public:
  InferredShapes(const OperatorDefinition& definition, OpgraftInference* host)
      : definition_(definition), host_(host) {}

  std::size_t input_count() const override { return host_->table->input_count(host_); }
  std::optional<std::size_t> output_count() const override {
    const std::size_t count = host_->table->output_count(host_);
    return count == std::numeric_limits<std::size_t>::max() ? std::nullopt : std::optional(count);
  }
  bool HasInput(std::size_t index) const override {
    return index < input_count() && Read(index).element_type != 0;
  }
  std::optional<Shape> Input(std::size_t index) const override {
    if (index >= input_count()) return std::nullopt;
    const OpgraftShape known = Read(index);
    if (known.element_type == 0 || known.has_rank == 0) return std::nullopt;
    Shape shape;
    for (std::size_t i = 0; i < known.rank; ++i) {
      const OpgraftDimension& one = known.dimensions[i];
      shape.push_back(one.size >= 0 ? Dim(one.size)
                                    : Dim::Symbol(one.symbol != nullptr ? one.symbol : ""));
    }
    return shape;
  }
  AttributeValue AnyAttribute(std::string_view name) const override {
    const AttributeDefinition* const attribute = FindAttribute(definition_, name);
    if (attribute == nullptr) {
      throw std::invalid_argument("no attribute '" + std::string(name) + "' is declared");
    }
    return ReadAttribute(host_, *attribute);
  }
  std::optional<std::vector<std::int64_t>> Integers(std::size_t index) const override {
    if (index >= input_count()) return std::nullopt;
    OpgraftTensor tensor = {};
    Check(host_->table->constant(host_, index, &tensor));
    if (tensor.element_type == 0) return std::nullopt;
    return RunShapes::ToIntegers(tensor);
  }
  std::size_t IndexOf(std::string_view name) const override {
    return OperatorDefinition::IndexOf(definition_.inputs, name);
  }
  void SetOutput(std::size_t index, Shape shape) override {
    CheckOutput(definition_, index);
    const std::optional<std::size_t> count = output_count();
    if (count && index >= *count) return;
    std::vector<std::string> symbols;
    for (const Dim& dim : shape) {
      // An expression whose text happens to be a symbol of the model would be taken for that
      // symbol.
      symbols.emplace_back(dim.IsComputed() && IsNameOfModel(dim.symbol()) ? "" : dim.symbol());
    }
    std::vector<OpgraftDimension> dimensions;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      dimensions.push_back({shape[i].size(), symbols[i].c_str()});
    }
    const OpgraftShape known = {TypeOf(index), 1, dimensions.size(), dimensions.data()};
    Check(host_->table->set_output(host_, index, &known));
  }

 private:
  bool IsNameOfModel(std::string_view text) const {
    for (std::size_t i = 0; i < input_count(); ++i) {
      const OpgraftShape known = Read(i);
      for (std::size_t axis = 0; known.has_rank != 0 && axis < known.rank; ++axis) {
        const OpgraftDimension& one = known.dimensions[axis];
        if (one.size < 0 && one.symbol != nullptr && one.symbol == text) return true;
      }
    }
    return false;
  }
  OpgraftShape Read(std::size_t index) const {
    OpgraftShape known = {};
    Check(host_->table->input(host_, index, &known));
    return known;
  }
  std::int32_t TypeOf(std::size_t index) const {
    std::vector<std::int32_t> types;
    for (std::size_t i = 0; i < input_count(); ++i) types.push_back(Read(i).element_type);
    return definition_.OutputType(index, types);
  }

  const OperatorDefinition& definition_;
  OpgraftInference* const host_;
};

}  // namespace

std::size_t CheckedCount(std::span<const std::int64_t> shape, std::size_t element_size) {
  const auto text = [&] {
    std::string sizes;
    for (const std::int64_t size : shape)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    return "[" + sizes + "]";
  };
  std::size_t bytes = element_size;
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) throw ShapeError("an output is requested with the shape " + text());
    count *= static_cast<std::size_t>(size);
    // With a size of 0, the other sizes may be arbitrarily large.
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes) ||
        bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
      if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
      throw ShapeError("an output of the shape " + text() + " is more than memory can hold");
    }
  }
  return count;
}

void RefuseType(const char* what, std::size_t index, std::int32_t given, std::int32_t expected) {
  const std::string place = std::string(what) + " " + std::to_string(index);
  if (given == 0) throw std::invalid_argument(place + " is absent, but the operator needs it");
  throw std::invalid_argument(place + " is " + ElementTypeName(given) + ", expected " +
                              ElementTypeName(expected));
}

void RefuseSecond(const NodeState& state, std::size_t index) {
  throw std::logic_error("the kernel has allocated " + OutputName(state, index) + " twice");
}

void RefuseMissing(const NodeState& state, std::size_t index) {
  throw std::logic_error("the kernel has not allocated " + OutputName(state, index));
}

std::vector<std::string> ToStrings(const OpgraftTensor& tensor, std::size_t index) {
  if (tensor.element_type != kElementType<std::string>) {
    RefuseType("input", index, tensor.element_type, kElementType<std::string>);
  }
  const Tensor<const OpgraftText> texts(static_cast<const OpgraftText*>(tensor.data),
                                        {tensor.shape, tensor.rank});
  std::vector<std::string> strings;
  strings.reserve(texts.size());
  for (const OpgraftText& text : texts) strings.push_back(ToString(text));
  return strings;
}

template <class Host>
AttributeValue ReadAttribute(Host* host, const AttributeDefinition& definition) {
  OpgraftAttribute given = {};
  Check(host->table->attribute(host, definition.name.c_str(), definition.kind, &given));
  if (given.kind != 0) return ToValue(given);
  if (!definition.is_required) return definition.fallback;
  Fail(host, Status::Model("attribute '" + definition.name + "' is missing and has no default"));
  throw HostFailed();  // NOLINT(bugprone-std-exception-baseclass): as in Check
}
template AttributeValue ReadAttribute(OpgraftNode*, const AttributeDefinition&);
template AttributeValue ReadAttribute(OpgraftInference*, const AttributeDefinition&);

NodeState::NodeState(const OperatorDefinition& of, const KernelDefinition& by, OpgraftNode* node)
    : definition(&of),
      kernel(&by),
      name(ToString(node->table->name(node))),
      input_count(node->table->input_count(node)),
      output_count(node->table->output_count(node)) {
  for (const AttributeDefinition& attribute : of.attributes) {
    attributes.push_back(ReadAttribute(node, attribute));
  }
  if (of.outputs.size() == 1 && output_count == 1 && of.rules.size() == 1) {
    const std::size_t source = OperatorDefinition::IndexOf(of.inputs, of.rules[0].same_as());
    if (source < of.inputs.size()) same_as = source;
  }
}

void NodeState::CheckOnHost(std::size_t index, const char* who) const {
  if (definition->IsOnHost(*kernel, index)) return;
  const std::string& input = OperatorDefinition::At(definition->inputs, index).name;
  throw KernelError(std::string(who) + " reads the elements of input '" + input +
                    "', which are on the GPU. Fix: declare it with opgraft::OnHost, as "
                    ".Input<opgraft::OnHost<std::int64_t>>(\"" +
                    input + "\")");
}

const AttributeValue& NodeState::Attribute(std::string_view attribute) const {
  const AttributeDefinition* const found = FindAttribute(*definition, attribute);
  if (found == nullptr) {
    throw std::invalid_argument("no attribute '" + std::string(attribute) + "' is declared");
  }
  return attributes[static_cast<std::size_t>(found - definition->attributes.data())];
}

OutputShapes::OutputShapes(const NodeState& state, std::span<const OpgraftTensor> inputs,
                           std::size_t outputs)
    : state_(state) {
  if (state.same_as < inputs.size() && inputs[state.same_as].element_type != 0) {
    // The most common case.
    is_same_ = true;
    first_ = {inputs[state.same_as].shape, inputs[state.same_as].rank};
    return;
  }
  if (Recall(inputs, outputs)) return;
  RunShapes shapes(state, inputs, outputs);
  state.definition->Infer(shapes);
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::optional<Shape>& shape = shapes.output(i);
    many_.push_back(shape ? static_cast<std::int64_t>(shape->size()) : kNoShape);
    if (!shape) continue;
    for (const Dim& dim : *shape) many_.push_back(dim.size());
  }
  size_ = many_.size();
  if (!shapes.has_read_elements()) Remember(inputs, outputs);
}

bool OutputShapes::Recall(std::span<const OpgraftTensor> inputs, std::size_t outputs) {
  ShapeMemory& memory = state_.memory;
  if (memory.is_taken.test_and_set(std::memory_order_acquire)) return false;
  const bool is_known = memory.output_count == outputs && HasShapes(inputs, memory.inputs);
  if (is_known) {
    size_ = memory.outputs.size();
    if (size_ > few_.size()) many_.resize(size_);
    std::copy(memory.outputs.begin(), memory.outputs.end(),
              many_.empty() ? few_.data() : many_.data());
  }
  memory.is_taken.clear(std::memory_order_release);
  return is_known;
}

void OutputShapes::Remember(std::span<const OpgraftTensor> inputs, std::size_t outputs) const {
  std::vector<std::int64_t> of_inputs;
  for (const OpgraftTensor& input : inputs) {
    if (input.element_type == 0) {
      of_inputs.push_back(kNoShape);
      continue;
    }
    of_inputs.push_back(static_cast<std::int64_t>(input.rank));
    of_inputs.insert(of_inputs.end(), input.shape, input.shape + input.rank);
  }
  std::vector<std::int64_t> of_outputs = many_;
  ShapeMemory& memory = state_.memory;
  if (memory.is_taken.test_and_set(std::memory_order_acquire)) return;
  memory.output_count = outputs;
  memory.inputs.swap(of_inputs);
  memory.outputs.swap(of_outputs);
  memory.is_taken.clear(std::memory_order_release);
}

std::span<const std::int64_t> OutputShapes::Find(std::size_t index) const {
  std::span<const std::int64_t> rest = flat();
  const auto length = [&] {
    return rest[0] == kNoShape ? std::size_t{0} : static_cast<std::size_t>(rest[0]);
  };
  for (std::size_t i = 0; i < index; ++i) rest = rest.subspan(1 + length());
  if (rest[0] == kNoShape) {
    throw ShapeError("the shape rule gives no shape to " + OutputName(state_, index));
  }
  const std::span<const std::int64_t> sizes = rest.subspan(1, length());
  if (std::find(sizes.begin(), sizes.end(), -1) != sizes.end()) {
    throw ShapeError("the shape rule gives " + OutputName(state_, index) +
                     " a shape whose sizes are not all known");
  }
  return sizes;
}

void OperatorDefinition::Infer(ShapeContext& context) const {
  if (function != nullptr) function(context);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::optional<Shape> shape = rules[i](context);
    if (!shape) continue;
    // The rule of a variadic output applies to each of its tensors.
    std::size_t end = i + 1;
    if (end == rules.size() && HasVariadicOutput(*this)) {
      end = std::max(end, context.output_count().value_or(end));
    }
    for (std::size_t output = i; output < end; ++output) context.SetOutput(output, *shape);
  }
}

std::size_t OperatorDefinition::IndexOf(const std::vector<ParameterDefinition>& parameters,
                                        std::string_view name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const auto& one) { return one.name == name; });
  return static_cast<std::size_t>(found - parameters.begin());
}

std::int32_t OperatorDefinition::OutputType(std::size_t index,
                                            const std::vector<std::int32_t>& input_types) const {
  const TypeOrigin origin = FindTypeOrigin(
      *this, index, input_types.size(), [&](std::size_t input) { return input_types[input] != 0; });
  return origin.input ? input_types[*origin.input] : static_cast<std::int32_t>(origin.fixed);
}

bool OperatorDefinition::IsOnHost(const KernelDefinition& kernel, std::size_t index) const {
  if (kernel.IsForCpu() || inputs.empty()) return true;
  const std::size_t place = std::min(index, inputs.size() - 1);
  return place < kernel.host_input_flags.size() && kernel.host_input_flags[place] != 0;
}

std::uint32_t OperatorDefinition::TypeIndex(const TypeDefinition& type) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].name != type.name) continue;
    if (types[i].allowed != type.allowed) {
      problems.push_back("two type variables are called '" + type.name + "'");
    }
    return static_cast<std::uint32_t>(i);
  }
  types.push_back(type);
  return static_cast<std::uint32_t>(types.size() - 1);
}

int InferShapes(const OperatorDefinition& definition, OpgraftInference* host) {
  return Guard(host, [&] {
    if (definition.inference != nullptr) {
      definition.inference(host);
      return Status();
    }
    InferredShapes shapes(definition, host);
    definition.Infer(shapes);
    return Status();
  });
}

}  // namespace opgraft::internal
