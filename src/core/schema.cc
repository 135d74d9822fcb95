// Checks counts and types against a schema.
#include "core/schema.h"

#include <algorithm>

#include "base/element_type.h"

namespace opgraft {
namespace {

bool IsVariadic(const std::vector<Parameter>& parameters) {
  return !parameters.empty() && parameters.back().occurrence == Occurrence::kVariadic;
}

/// Returns the smallest number of values.
std::size_t Fewest(const std::vector<Parameter>& parameters) {
  std::size_t fewest = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].occurrence == Occurrence::kRequired) fewest = i + 1;
    if (parameters[i].minimum > 0) fewest = i + parameters[i].minimum;
  }
  return fewest;
}

}  // namespace

DefaultTensor DefaultTensor::CopyOf(const OpgraftTensor& tensor) {
  DefaultTensor copy = {tensor.element_type, {tensor.shape, tensor.shape + tensor.rank}, {}, {}};
  std::size_t count = 1;
  for (const std::int64_t size : copy.shape) count *= static_cast<std::size_t>(size);
  if (tensor.element_type == kString) {
    const auto* const texts = static_cast<const OpgraftText*>(tensor.data);
    for (std::size_t i = 0; i < count; ++i) copy.texts.emplace_back(texts[i].data, texts[i].size);
  } else if (const ElementType* const type = FindElementType(tensor.element_type)) {
    const auto* const elements = static_cast<const std::byte*>(tensor.data);
    copy.elements.assign(elements, elements + type->PackedSize(count));
  }
  return copy;
}

bool TypeVariable::Allows(std::int64_t element_type) const {
  return allowed.empty() ||
         std::find(allowed.begin(), allowed.end(), element_type) != allowed.end();
}

Status Schema::CheckTypes(std::string_view who, const std::vector<std::int64_t>& input_types,
                          const std::vector<std::int64_t>& output_types) const {
  struct Known {
    std::int64_t type = 0;
    std::string value;
  };
  std::vector<Known> known(
      types.size());  // for each type variable, the first value that has a type
  const auto check = [&](const char* what, const std::vector<Parameter>& parameters,
                         std::size_t index, std::int64_t type) {
    if (type == 0) return Status();
    const Parameter& parameter = At(parameters, index);
    const TypeVariable& variable = types[parameter.type];
    const std::string value = what + (" " + std::to_string(index)) + ", '" + parameter.name + "',";
    if (!variable.Allows(type)) {
      std::string allowed;
      for (const std::int64_t element_type : variable.allowed) {
        allowed += (allowed.empty() ? "" : ", ") + ElementTypeName(element_type);
      }
      return Status::Model(std::string(who) + ": " + value + " is " + ElementTypeName(type) +
                           ", expected " + (variable.allowed.size() > 1 ? "one of " : "") +
                           allowed);
    }
    Known& first = known[parameter.type];
    // If the values of a variable are not tied, only the first input determines an output's type.
    const bool is_compared = variable.is_tied || &parameters == &outputs;
    if (first.type == 0) first = {type, value};
    if (!is_compared || first.type == type) return Status();
    return Status::Model(std::string(who) + ": " + value + " is " + ElementTypeName(type) +
                         ", expected " + ElementTypeName(first.type) + ", the type of " +
                         first.value.substr(0, first.value.size() - 1));
  };
  for (std::size_t i = 0; i < input_types.size(); ++i) {
    if (Status status = check("input", inputs, i, input_types[i]); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    if (Status status = check("output", outputs, i, output_types[i]); !status.ok()) return status;
  }
  return Status();
}

std::int64_t Schema::OutputType(std::size_t index,
                                const std::vector<std::int64_t>& input_types) const {
  const TypeOrigin origin = FindTypeOrigin(
      *this, index, input_types.size(), [&](std::size_t input) { return input_types[input] != 0; });
  return origin.input ? input_types[*origin.input] : origin.fixed;
}

std::string Schema::CountText(const std::vector<Parameter>& parameters, std::string_view what) {
  const std::size_t fewest = Fewest(parameters);
  std::string text = std::to_string(fewest);
  std::size_t last = fewest;
  if (IsVariadic(parameters)) {
    text = "at least " + text;
  } else if (fewest != parameters.size()) {
    last = parameters.size();
    text += " to " + std::to_string(last);
  }
  return text + " " + std::string(what) + (last == 1 ? "" : "s");
}

bool Schema::TakesCount(const std::vector<Parameter>& parameters, std::size_t count) {
  return count >= Fewest(parameters) && (count <= parameters.size() || IsVariadic(parameters));
}

}  // namespace opgraft
