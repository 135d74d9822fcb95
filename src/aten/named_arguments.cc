// Reads numbers from where the call will read them too: the node's text or its inputs.
#include "aten/named_arguments.h"

#include <algorithm>

#include "base/element_type.h"
#include "base/text.h"

namespace opgraft::aten {

std::int64_t TensorArgument::SizeFromEnd(std::size_t from_end) const {
  return rank() >= from_end ? shape[rank() - from_end] : 0;
}

std::string TensorArgument::Text() const {
  return (is_complex ? "complex " : "") + ElementTypeName(element_type) + "[" +
         DimensionsText(shape) + "]";
}

const Written* NamedArguments::Find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found != names_.end() ? &written_[static_cast<std::size_t>(found - names_.begin())]
                               : nullptr;
}

std::optional<TensorArgument> NamedArguments::TensorOf(const Written& written) const {
  const bool is_complex = written.form == Form::kComplexTensor;
  if (written.form != Form::kTensor && !is_complex) return std::nullopt;
  TensorArgument tensor;
  static_cast<InputTensor&>(tensor) = inputs_[static_cast<std::size_t>(written.integer)];
  tensor.is_complex = is_complex;
  if (is_complex) {
    if (tensor.shape.empty() || tensor.shape.back() != 2) return std::nullopt;  // not pairs
    tensor.shape = tensor.shape.first(tensor.shape.size() - 1);
  }
  return tensor;
}

std::optional<std::int64_t> NamedArguments::IntegerOf(const Written& written) const {
  if (written.form == Form::kInt || written.form == Form::kBool) return written.integer;
  if (written.form != Form::kNumberOf) return std::nullopt;
  const InputTensor& input = inputs_[static_cast<std::size_t>(written.integer)];
  return Count(input.shape) == 1 ? ReadInteger(input, 0) : std::nullopt;
}

std::optional<double> NamedArguments::RealOf(const Written& written) const {
  if (written.form == Form::kFloat) return written.real;
  if (written.form == Form::kInt || written.form == Form::kBool) {
    return static_cast<double>(written.integer);
  }
  if (written.form != Form::kNumberOf) return std::nullopt;
  const InputTensor& input = inputs_[static_cast<std::size_t>(written.integer)];
  return Count(input.shape) == 1 ? ReadReal(input, 0) : std::nullopt;
}

template <class Number, class Read, class ReadElement>
std::optional<std::vector<Number>> NamedArguments::FindNumbers(std::string_view name, Read read,
                                                               ReadElement read_element) const {
  const Written* const written = Find(name);
  if (written == nullptr || written->form == Form::kNull) return std::nullopt;
  std::vector<Number> numbers;
  const auto add = [&](const std::optional<Number>& number) {
    if (number) numbers.push_back(*number);
    return number.has_value();
  };
  bool are_known = true;
  if (written->form == Form::kList) {
    for (const Written& item : written->items) are_known = are_known && add(read(item));
  } else if (written->form == Form::kNumbersOf) {
    const InputTensor& input = inputs_[static_cast<std::size_t>(written->integer)];
    are_known = input.shape.size() == 1;
    for (std::size_t i = 0; are_known && i < Count(input.shape); ++i) {
      are_known = add(read_element(input, i));
    }
  } else {
    are_known = add(read(*written));
  }
  return are_known ? std::optional(std::move(numbers)) : std::nullopt;
}

bool NamedArguments::Has(std::string_view name) const {
  const Written* const written = Find(name);
  return written != nullptr && written->form != Form::kNull;
}

std::optional<TensorArgument> NamedArguments::FindTensor(std::string_view name) const {
  const Written* const written = Find(name);
  return written != nullptr ? TensorOf(*written) : std::nullopt;
}

std::vector<TensorArgument> NamedArguments::FindTensors(std::string_view name) const {
  std::vector<TensorArgument> tensors;
  const Written* const written = Find(name);
  if (written == nullptr) return tensors;
  for (const Written& item : written->items) {
    if (std::optional<TensorArgument> tensor = TensorOf(item)) tensors.push_back(*tensor);
  }
  return tensors;
}

std::vector<std::optional<TensorArgument>> NamedArguments::FindOptionalTensors(
    std::string_view name) const {
  std::vector<std::optional<TensorArgument>> tensors;
  const Written* const written = Find(name);
  if (written == nullptr) return tensors;
  for (const Written& item : written->items) tensors.push_back(TensorOf(item));
  return tensors;
}

std::optional<std::int64_t> NamedArguments::FindInteger(std::string_view name) const {
  const Written* const written = Find(name);
  return written != nullptr ? IntegerOf(*written) : std::nullopt;
}

std::optional<double> NamedArguments::FindReal(std::string_view name) const {
  const Written* const written = Find(name);
  return written != nullptr ? RealOf(*written) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> NamedArguments::FindIntegers(std::string_view name) const {
  return FindNumbers<std::int64_t>(
      name, [&](const Written& written) { return IntegerOf(written); }, ReadInteger);
}

std::optional<std::vector<double>> NamedArguments::FindReals(std::string_view name) const {
  return FindNumbers<double>(
      name, [&](const Written& written) { return RealOf(written); }, ReadReal);
}

std::size_t NamedArguments::CountOf(std::string_view name) const {
  const Written* const written = Find(name);
  return written != nullptr ? written->items.size() : 0;
}

}  // namespace opgraft::aten
