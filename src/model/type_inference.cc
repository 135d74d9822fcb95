// A table that is generated from onnx.defs, and rules for the outputs whose types it cannot tell.
#include "model/type_inference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <protozero/pbf_writer.hpp>

#include "base/element_type.h"
#include "model/declared_values.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// The types of an operator from version `since` on. Each input and output is a word: a letter is a
/// type variable, a number is the only type, `?` is any type. The last may end in `*`: it repeats.
struct TypeRule {
  std::string_view op_type;
  std::int64_t since;
  std::string_view inputs;
  std::string_view outputs;
};

constexpr TypeRule kTypeRules[] = {
#include "model/type_rules.inc"  // NOLINT(bugprone-suspicious-include)
};

/// Returns the rule of the newest version that is not above `version`; nullptr if there is none.
const TypeRule* FindRule(std::string_view op_type, std::int64_t version) {
  const auto* const first = std::lower_bound(
      std::begin(kTypeRules), std::end(kTypeRules), op_type,
      [](const TypeRule& rule, std::string_view name) { return rule.op_type < name; });
  const TypeRule* found = nullptr;
  for (const auto* rule = first; rule != std::end(kTypeRules) && rule->op_type == op_type; ++rule) {
    if (rule->since <= version) found = rule;
  }
  return found;
}

/// Goes through the words of a rule; the last one is repeated if it says so.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  /// Returns the next word without its `*`; "" if there are no more.
  std::string_view Next() {
    if (repeats_) return word_;
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    word_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    repeats_ = word_.ends_with('*');
    if (repeats_) word_.remove_suffix(1);
    return word_;
  }

 private:
  std::string_view rest_;
  std::string_view word_;
  bool repeats_ = false;
};

bool IsVariable(std::string_view word) { return word.size() == 1 && word[0] >= 'a'; }

ValueType TypeOfTensor(std::string_view attribute) {
  for (FieldReader reader(attribute); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeTensor) {
      return ReadTensorHead(reader.field().Bytes()).second.element_type;
    }
  }
  return 0;
}

ValueType TypeOfConstant(const NodeParts& node) {
  if (!node.Find("value").empty()) return TypeOfTensor(node.Find("value"));
  if (!node.Find("value_float").empty() || !node.Find("value_floats").empty())
    return element::kFloat32;
  if (!node.Find("value_int").empty() || !node.Find("value_ints").empty()) return element::kInt64;
  if (!node.Find("value_string").empty() || !node.Find("value_strings").empty()) return kString;
  return 0;
}

ValueType TypeOfOptional(const NodeParts& node, ValueType input) {
  for (FieldReader reader(node.Find("type")); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeTypeProto) {
      input = ReadType(reader.field().Bytes());
    }
  }
  return input > 0 && input < kOptionalOf ? kOptionalOf + input : 0;
}

/// Returns the type of a sequence of `element`, or of the element of a sequence.
ValueType ToSequence(ValueType element) { return IsTensor(element) ? kSequenceOf + element : 0; }
ValueType FromSequence(ValueType sequence) {
  return sequence > kSequenceOf && sequence < kOptionalOf ? sequence - kSequenceOf : 0;
}

/// The type of an output that the table does not tell. `first` is the type of the first input.
ValueType TypeByRule(const NodeParts& node, std::size_t index, ValueType first) {
  const std::string_view name = node.head.op_type;
  const auto is = [&](auto... names) { return ((name == names) || ...); };
  if (is("Cast", "BitCast")) return node.Integer("to", 0);
  if (is("Constant")) return TypeOfConstant(node);
  if (is("ConstantOfShape")) {
    const std::string_view value = node.Find("value");
    return value.empty() ? element::kFloat32 : TypeOfTensor(value);
  }
  if (is("RandomNormal", "RandomUniform", "BlackmanWindow", "HammingWindow", "HannWindow",
         "MelWeightMatrix")) {
    return node.Integer(TypeAttribute(name), element::kFloat32);
  }
  if (is("Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike")) {
    return node.Integer("dtype", first);
  }
  if (is("Multinomial")) return node.Integer("dtype", element::kInt32);
  if (is("LayerNormalization"))
    return index > 0 ? node.Integer("stash_type", element::kFloat32) : first;
  if (is("SequenceEmpty")) return ToSequence(node.Integer("dtype", element::kFloat32));
  if (is("SequenceConstruct", "SplitToSequence")) return ToSequence(first);
  if (is("SequenceAt", "ConcatFromSequence")) return FromSequence(first);
  if (is("Optional")) return TypeOfOptional(node, first);
  if (is("OptionalGetElement")) return first > kOptionalOf ? first - kOptionalOf : first;
  return 0;
}

/// The types of some operators' outputs are attributes, if they are given.
ValueType TypeInAttribute(const NodeParts& node) {
  const bool has = node.head.op_type == "QuantizeLinear" || node.head.op_type == "DequantizeLinear";
  return has ? node.Integer("output_dtype", 0) : 0;
}

constexpr int kDeepestType = 3;

ValueType ReadTypeAt(std::string_view type, int depth) {
  if (depth > kDeepestType) return 0;
  for (FieldReader reader(type); reader.Next();) {
    const Field& field = reader.field();
    const bool is_sequence = field.tag() == tag::kSequenceType;
    if (!is_sequence && field.tag() != tag::kOptionalType && field.tag() != tag::kTensorType) {
      continue;
    }
    ValueType element = 0;
    for (FieldReader inner(field.Bytes()); inner.Next();) {
      if (inner.field().tag() != tag::kElementType) continue;
      element = field.tag() == tag::kTensorType ? inner.field().Integer()
                                                : ReadTypeAt(inner.field().Bytes(), depth + 1);
    }
    if (field.tag() == tag::kTensorType) return IsTensor(element) ? element : 0;
    if (is_sequence) return ToSequence(element);
    return element > 0 && element < kOptionalOf ? kOptionalOf + element : 0;
  }
  return 0;
}

}  // namespace

std::string TypeName(ValueType type) {
  if (type >= kOptionalOf) return "optional(" + TypeName(type - kOptionalOf) + ")";
  if (type >= kSequenceOf) return "seq(" + TypeName(type - kSequenceOf) + ")";
  return ElementTypeName(type);
}

ValueType ReadType(std::string_view type) { return ReadTypeAt(type, 0); }

std::pair<std::string_view, ValueType> ReadNamedType(std::string_view value_info) {
  return {ReadText(value_info, tag::kValueName), ReadType(ReadText(value_info, tag::kValueType))};
}

std::string WriteType(ValueType type) {
  std::string inner;
  protozero::pbf_writer inner_writer(inner);
  std::string written;
  protozero::pbf_writer writer(written);
  if (type >= kSequenceOf) {
    const bool is_optional = type >= kOptionalOf;
    inner_writer.add_message(tag::kElementType,
                             WriteType(type - (is_optional ? kOptionalOf : kSequenceOf)));
    writer.add_message(is_optional ? tag::kOptionalType : tag::kSequenceType, inner);
    return written;
  }
  inner_writer.add_int32(tag::kElementType, static_cast<std::int32_t>(type));
  writer.add_message(tag::kTensorType, inner);
  return written;
}

bool IsOnnxOperator(std::string_view op_type) {
  const auto is_it = [&](const TypeRule& rule) { return rule.op_type == op_type; };
  return std::any_of(std::begin(kTypeRules), std::end(kTypeRules), is_it);
}

std::vector<ValueType> InferTypes(const NodeParts& node, std::int64_t version,
                                  const std::vector<ValueType>& inputs) {
  std::vector<ValueType> types(node.outputs.size());
  const TypeRule* const rule = FindRule(node.head.op_type, version);
  if (rule == nullptr) return types;
  std::array<ValueType, 26> variables{};
  Words words(rule->inputs);
  for (const ValueType input : inputs) {
    const std::string_view word = words.Next();
    if (!IsVariable(word)) continue;
    ValueType& variable = variables[static_cast<std::size_t>(word[0] - 'a') % variables.size()];
    if (variable == 0) variable = input;
  }
  words = Words(rule->outputs);
  const ValueType said = TypeInAttribute(node);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string_view word = words.Next();
    if (IsVariable(word)) {
      types[i] = variables[static_cast<std::size_t>(word[0] - 'a') % variables.size()];
    } else if (word != "?" && !word.empty()) {
      std::from_chars(word.data(), word.data() + word.size(), types[i]);
    } else if (!word.empty()) {
      types[i] = TypeByRule(node, i, inputs.empty() ? 0 : inputs[0]);
    }
    if (said != 0) types[i] = said;
    // An absent zero point means uint8.
    if (types[i] == 0 && node.head.op_type == "QuantizeLinear") types[i] = element::kUint8;
    if (types[i] < 0 || types[i] >= kOptionalOf + kOptionalOf) types[i] = 0;
  }
  return types;
}

std::string_view TypeAttribute(std::string_view op_type) {
  const auto is = [&](auto... names) { return ((op_type == names) || ...); };
  if (is("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
         "EyeLike")) {
    return "dtype";
  }
  if (is("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")) {
    return "output_datatype";
  }
  if (is("DequantizeLinear")) return "output_dtype";
  return "";
}

}  // namespace opgraft::model
