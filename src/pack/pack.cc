// The operators of one pack: checked when they are added, and passed to the host as C structs.
#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/definition.h"

namespace opgraft::internal {
namespace {

/// An attribute's value as a C struct, which points into the value.
class AttributeStruct {
 public:
  AttributeStruct(const AttributeValue& value, std::int32_t kind) {
    if (std::holds_alternative<std::monostate>(value)) return;
    attribute_.kind = kind;
    attribute_.count = 1;
    std::visit([this](const auto& held) { Set(held); }, value);
  }
  const OpgraftAttribute& get() const { return attribute_; }

 private:
  void Set(const std::monostate&) {}
  void Set(const float& value) { attribute_.floats = &value; }
  void Set(const std::int64_t& value) { attribute_.integers = &value; }
  void Set(const std::string& value) {
    texts_.push_back({value.data(), value.size()});
    attribute_.texts = texts_.data();
  }
  void Set(const std::vector<float>& values) {
    attribute_.floats = values.data();
    attribute_.count = values.size();
  }
  void Set(const std::vector<std::int64_t>& values) {
    attribute_.integers = values.data();
    attribute_.count = values.size();
  }
  void Set(const std::vector<std::string>& values) {
    for (const std::string& value : values) texts_.push_back({value.data(), value.size()});
    attribute_.texts = texts_.data();
    attribute_.count = values.size();
  }
  void Set(const TensorValue& value) {
    const void* data = value.bytes().data();
    for (const std::string& text : value.strings()) texts_.push_back({text.data(), text.size()});
    if (value.element_type() == kElementType<std::string>) data = texts_.data();
    tensor_ = {const_cast<void*>(data), value.shape().data(), value.shape().size(),
               value.element_type()};
    attribute_.tensors = &tensor_;
  }

  OpgraftAttribute attribute_ = {};
  OpgraftTensor tensor_ = {};
  std::vector<OpgraftText> texts_;
};

std::int32_t KindOf(const AttributeValue& value) {
  return std::visit([]<class T>(const T&) { return kAttributeKind<T>; }, value);
}

/// An operator as a C struct, which points into its definition.
class OperatorStruct : public OpgraftOperator {
 public:
  explicit OperatorStruct(std::unique_ptr<OperatorDefinition> given)
      : OpgraftOperator(), definition_(std::move(given)) {
    const OperatorDefinition& definition = *definition_;
    domain = definition.domain.c_str();
    name = definition.name.c_str();
    documentation = definition.documentation.c_str();
    since_version = definition.since_version;
    Fill(definition.inputs, &inputs_);
    inputs = inputs_.data();
    input_count = inputs_.size();
    Fill(definition.outputs, &outputs_);
    outputs = outputs_.data();
    output_count = outputs_.size();
    for (const TypeDefinition& type : definition.types) {
      types_.push_back({type.name.c_str(), type.description.c_str(), type.allowed.data(),
                        type.allowed.size(), type.is_tied ? 1 : 0});
    }
    types = types_.data();
    type_count = types_.size();
    for (const AttributeDefinition& attribute : definition.attributes) {
      fallbacks_.emplace_back(attribute.fallback, attribute.kind);
      attributes_.push_back({attribute.name.c_str(), attribute.description.c_str(), attribute.kind,
                             attribute.is_required ? 1 : 0, fallbacks_.back().get()});
    }
    attributes = attributes_.data();
    attribute_count = attributes_.size();
    for (const auto& [input, output] : definition.in_place) {
      in_place_.push_back(
          {static_cast<std::uint32_t>(OperatorDefinition::IndexOf(definition.inputs, input)),
           static_cast<std::uint32_t>(OperatorDefinition::IndexOf(definition.outputs, output))});
    }
    in_place = in_place_.data();
    in_place_count = in_place_.size();
    for (const std::unique_ptr<KernelDefinition>& kernel : definition.kernels) {
      kernel->device = kernel->device_name.c_str();
      kernel->types = kernel->type_numbers.data();
      if (!kernel->host_input_flags.empty()) {
        kernel->host_inputs = kernel->host_input_flags.data();
      }
      kernels_.push_back(kernel.get());
    }
    kernels = kernels_.data();
    kernel_count = kernels_.size();
    FillTorchCalls(definition.torch_calls);
    if (definition.HasRule()) {
      infer = [](const OpgraftOperator* self, OpgraftInference* host) {
        return InferShapes(*static_cast<const OperatorStruct*>(self)->definition_, host);
      };
    }
  }
  OperatorStruct(const OperatorStruct&) = delete;
  OperatorStruct& operator=(const OperatorStruct&) = delete;

 private:
  static void Fill(const std::vector<ParameterDefinition>& from,
                   std::vector<OpgraftParameter>* to) {
    for (const ParameterDefinition& parameter : from) {
      to->push_back({parameter.name.c_str(), parameter.description.c_str(), parameter.occurrence,
                     parameter.type, parameter.minimum});
    }
  }

  void FillTorchCalls(const std::vector<TorchCallDefinition>& calls) {
    for (const TorchCallDefinition& call : calls) {
      std::vector<OpgraftTorchArgument>& made = torch_arguments_.emplace_back();
      for (const TorchArgumentDefinition& one : call.arguments) {
        fallbacks_.emplace_back(one.value, KindOf(one.value));
        made.push_back({one.name.c_str(), one.argument.empty() ? nullptr : one.argument.c_str(),
                        fallbacks_.back().get()});
      }
      torch_calls_.push_back({call.name.c_str(), made.data(), made.size(),
                              call.left_to_torch.data(), call.left_to_torch.size()});
      torch_names_ += (torch_names_.empty() ? "" : ", ") + call.name;
    }
    torch_name = torch_names_.c_str();
    torch_calls = torch_calls_.data();
    torch_call_count = torch_calls_.size();
  }

  const std::unique_ptr<OperatorDefinition> definition_;
  std::string torch_names_;
  std::deque<std::vector<OpgraftTorchArgument>> torch_arguments_;
  std::vector<OpgraftTorchCall> torch_calls_;
  std::vector<OpgraftParameter> inputs_;
  std::vector<OpgraftParameter> outputs_;
  std::vector<OpgraftType> types_;
  std::deque<AttributeStruct> fallbacks_;
  std::vector<OpgraftAttributeParameter> attributes_;
  std::vector<OpgraftInPlace> in_place_;
  std::vector<const OpgraftKernel*> kernels_;
};

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

/// Checks names and occurrences of parameters.
void CheckParameters(const char* what, const std::vector<ParameterDefinition>& parameters,
                     std::vector<std::string>* problems) {
  std::set<std::string> names;
  bool had_optional = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterDefinition& one = parameters[i];
    const std::string called = std::string(what) + " " + Quoted(one.name);
    if (one.name.empty()) {
      problems->push_back(std::string(what) + " " + std::to_string(i) + " has no name");
    } else if (!names.insert(one.name).second) {
      problems->push_back("two " + std::string(what) + "s are called " + Quoted(one.name));
    }
    if (one.occurrence == OPGRAFT_VARIADIC && i + 1 != parameters.size()) {
      problems->push_back(called + " is variadic, but only the last one may be");
    }
    if (one.occurrence == OPGRAFT_REQUIRED && had_optional) {
      problems->push_back(called + " is required, but comes after an optional one");
    }
    had_optional |= one.occurrence == OPGRAFT_OPTIONAL;
  }
}

/// Checks what the operator declares with .Torch(...).
void CheckTorchCalls(const OperatorDefinition& definition, std::vector<std::string>* problems) {
  for (const TorchCallDefinition& call : definition.torch_calls) {
    if (call.name.find("::") == std::string::npos) {
      problems->push_back("Torch(" + Quoted(call.name) + "): expected a name such as aten::gelu");
    }
    for (const TorchArgumentDefinition& one : call.arguments) {
      const auto is_called_so = [&](const AttributeDefinition& attribute) {
        return attribute.name == one.name;
      };
      const auto attribute =
          std::find_if(definition.attributes.begin(), definition.attributes.end(), is_called_so);
      const bool is_attribute = attribute != definition.attributes.end();
      const bool is_input =
          OperatorDefinition::IndexOf(definition.inputs, one.name) < definition.inputs.size();
      const std::string where = "Torch(" + Quoted(call.name) + "): " + Quoted(one.name);
      if (!one.argument.empty() && !is_attribute && !is_input) {
        problems->push_back(where + " should take torch's " + Quoted(one.argument) +
                            ", but is neither an attribute nor an input");
      } else if (one.argument.empty() && is_attribute && KindOf(one.value) != attribute->kind) {
        problems->push_back(where + " has a value of another kind than the attribute");
      } else if (one.argument.empty() && is_input) {
        problems->push_back(where +
                            " is an input, which has no fixed value. Fix: name the argument, {\"" +
                            one.name + "\", opgraft::Argument(\"...\")}");
      }
    }
  }
}

std::vector<std::string> Check(const OperatorDefinition& definition) {
  std::vector<std::string> problems = definition.problems;
  if (definition.domain.empty() || definition.name.empty()) {
    problems.emplace_back("it has no domain or no name");
  }
  if (definition.since_version < 1) problems.emplace_back("its version is below 1");
  CheckParameters("input", definition.inputs, &problems);
  CheckParameters("output", definition.outputs, &problems);
  std::set<std::string> attributes;
  for (const AttributeDefinition& attribute : definition.attributes) {
    if (attribute.name.empty()) problems.emplace_back("an attribute has no name");
    if (!attributes.insert(attribute.name).second) {
      problems.push_back("two attributes are called " + Quoted(attribute.name));
    }
    if (const auto* const tensor = std::get_if<TensorValue>(&attribute.fallback)) {
      if (!tensor->IsWhole()) {
        problems.push_back("the default of attribute " + Quoted(attribute.name) +
                           " does not have as many elements as its shape says");
      }
    }
  }
  const auto has_input = [&](const std::string& name) {
    return OperatorDefinition::IndexOf(definition.inputs, name) < definition.inputs.size();
  };
  for (const ShapeRule& rule : definition.rules) {
    for (const std::string& name : rule.names().inputs) {
      if (!has_input(name)) {
        problems.push_back("its shape rule names " + Quoted(name) + ", which is not an input");
      }
    }
    for (const std::string& name : rule.names().attributes) {
      if (attributes.count(name) == 0) {
        problems.push_back("its shape rule names " + Quoted(name) + ", which is not an attribute");
      }
    }
  }
  if (!definition.rules.empty() && definition.rules.size() != definition.outputs.size()) {
    problems.push_back("it has " + std::to_string(definition.rules.size()) + " shape rules for " +
                       std::to_string(definition.outputs.size()) + " outputs");
  }
  std::set<std::string> in_place;
  for (const auto& [input, output] : definition.in_place) {
    if (!in_place.insert(output).second) {
      problems.push_back("InPlace names two inputs for output " + Quoted(output));
    }
    if (!has_input(input)) {
      problems.push_back("InPlace names " + Quoted(input) + ", which is not an input");
    }
    if (OperatorDefinition::IndexOf(definition.outputs, output) >= definition.outputs.size()) {
      problems.push_back("InPlace names " + Quoted(output) + ", which is not an output");
    }
  }
  CheckTorchCalls(definition, &problems);
  if (definition.kernels.empty()) problems.emplace_back("it has no kernel");
  return problems;
}

class Pack : public OpgraftPack {
 public:
  Pack() : OpgraftPack() { version = OPGRAFT_PACK_VERSION; }

  void Add(std::unique_ptr<OperatorDefinition> definition) {
    const std::string full_name = definition->FullName();
    for (const std::string& one : Check(*definition)) Report(full_name + ": " + one);
    for (const std::unique_ptr<OperatorStruct>& other : structs_) {
      if (definition->domain == other->domain && definition->name == other->name &&
          definition->since_version == other->since_version) {
        Report(full_name + ": it is declared twice at version " +
               std::to_string(definition->since_version));
      }
    }
    structs_.push_back(std::make_unique<OperatorStruct>(std::move(definition)));
    pointers_.push_back(structs_.back().get());
    operators = pointers_.data();
    operator_count = pointers_.size();
  }

  /// Adds to the problems of the pack.
  void Report(const std::string& text) {
    text_ += (text_.empty() ? "" : "; ") + text;
    problem = text_.c_str();
  }

  void AddLater(void (*add)()) { later_.push_back(add); }
  /// Must be called once, before the pack is passed to a host.
  void Complete() noexcept {
    try {
      for (void (*const add)() : later_) add();
    } catch (...) {
      Report("out of memory while its operators were joined");
    }
  }

 private:
  std::vector<std::unique_ptr<OperatorStruct>> structs_;
  std::vector<const OpgraftOperator*> pointers_;
  std::vector<void (*)()> later_;
  std::string text_;
};

Pack& ThePack() {
  static Pack* const pack = new Pack;  // kernels may outlive every static object
  return *pack;
}

}  // namespace

void AddToPack(std::unique_ptr<OperatorDefinition> definition) {
  ThePack().Add(std::move(definition));
}

void AddToPackLater(void (*add)()) { ThePack().AddLater(add); }

void ReportToPack(const char* problem) noexcept { ThePack().Report(problem); }

}  // namespace opgraft::internal

extern "C" __attribute__((visibility("default"))) const OpgraftPack* opgraft_pack() {
  static const OpgraftPack* const pack = [] {
    opgraft::internal::ThePack().Complete();
    return &opgraft::internal::ThePack();
  }();
  return pack;
}
