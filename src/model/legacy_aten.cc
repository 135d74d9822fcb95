// Tries each overload, and takes the one with the lowest penalty.
#include "model/legacy_aten.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <utility>
#include <vector>

#include "aten/dtype.h"
#include "aten/operators.h"
#include "base/element_type.h"
#include "base/text.h"
#include "model/aten_node.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

using aten::Parameter;
using aten::Type;

/// The parts of a node, as views of its bytes.
struct LegacyNode {
  std::string who;
  std::string_view name;
  std::string_view operator_name;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::pair<std::string_view, std::string_view>> attributes;  // by name
};

Status ReadNode(std::string_view node, const NodeHead& head, LegacyNode* taken) {
  LegacyNode& read = *taken;
  const std::string who = "node '" + ReadableName(NodeName(node, head)) + "'";
  read.name = head.name;
  if (head.op_type != kAtenOpType) read.operator_name = head.op_type;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kNodeInput) read.inputs.push_back(field.Bytes());
    if (field.tag() == tag::kNodeOutput) read.outputs.push_back(field.Bytes());
    if (field.tag() != tag::kNodeAttribute) continue;
    const AttributeHead attribute = ReadAttributeHead(field.Bytes());
    const bool is_operator = attribute.name == "operator" && head.op_type == kAtenOpType;
    if (!is_operator && attribute.name != "overload_name") {
      read.attributes.emplace_back(attribute.name, field.Bytes());
      continue;
    }
    if (Status status = CheckKind(field.Bytes(), tag::kString, who); !status.ok()) return status;
    (is_operator ? read.operator_name : read.overload) =
        ReadText(field.Bytes(), tag::kAttributeString);
  }
  read.who = who + ", operator aten::" + ReadableName(read.operator_name);
  return Status();
}

std::string TextLiteral(std::string_view text) {
  std::string quoted = "\"";
  for (const char sign : text) {
    if (sign == '"' || sign == '\\') quoted += '\\';
    quoted += sign;
  }
  return quoted + '"';
}

std::string RealText(double real) {
  if (std::isnan(real)) return "nan";
  if (std::isinf(real)) return real < 0 ? "-inf" : "inf";
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), real);
  std::string text(digits, error == std::errc() ? end : digits);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

/// Returns the name of a dtype, layout or memory format, given as a number of c10.
std::optional<std::string> NameText(aten::Kind kind, std::int64_t number) {
  constexpr std::string_view kLayouts[] = {"strided", "sparse_coo"};
  constexpr std::string_view kFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                           "channels_last_3d"};
  const auto find = [&](const auto& names) -> std::optional<std::string> {
    const bool is_known = number >= 0 && number < static_cast<std::int64_t>(std::size(names));
    if (!is_known || names[number].empty()) return std::nullopt;
    return "torch." + std::string(names[number]);
  };
  switch (kind) {
    case aten::Kind::kDtype:
      for (const ElementType& type : kElementTypes) {
        if (number >= 0 && type.torch_number == number) return "torch." + std::string(type.name);
      }
      return std::nullopt;
    case aten::Kind::kLayout: return find(kLayouts);
    case aten::Kind::kMemoryFormat: return find(kFormats);
    default: return std::nullopt;
  }
}

/// Returns number `index` of a constant as an argument of this kind; nullopt if it cannot be one.
std::optional<std::string> NumberText(const Constant& constant, std::size_t index,
                                      aten::Kind kind) {
  const bool is_real = constant.kind == Constant::Kind::kReals;
  const std::int64_t integer = is_real ? 0 : constant.integers[index];
  const bool is_bool = constant.kind == Constant::Kind::kBools;
  switch (kind) {
    case aten::Kind::kInt:
      if (is_real || is_bool) return std::nullopt;
      return std::to_string(integer);
    case aten::Kind::kFloat:
      return RealText(is_real ? constant.reals[index] : static_cast<double>(integer));
    case aten::Kind::kBool:
      if (is_real) return std::nullopt;
      return integer != 0 ? "true" : "false";
    case aten::Kind::kScalar:
      if (is_real) return RealText(constant.reals[index]);
      return is_bool ? (integer != 0 ? "true" : "false") : std::to_string(integer);
    case aten::Kind::kDevice: return "device(\"cpu\")";
    default: return is_real ? std::nullopt : NameText(kind, integer);
  }
}

/// Returns a constant as an argument of this type; nullopt if it cannot be one.
std::optional<std::string> ConstantText(const Constant& constant, const Type& type) {
  if (constant.kind == Constant::Kind::kText) {
    if (type.kind == aten::Kind::kText && !type.is_list) return TextLiteral(constant.text);
    if (type.kind == aten::Kind::kDevice) return "device(\"cpu\")";
    return std::nullopt;
  }
  const std::size_t count =
      constant.kind == Constant::Kind::kReals ? constant.reals.size() : constant.integers.size();
  if (!type.is_list) return count == 1 ? NumberText(constant, 0, type.kind) : std::nullopt;
  std::string list;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<std::string> item = NumberText(constant, i, type.kind);
    if (!item) return std::nullopt;
    list += (list.empty() ? "" : ", ") + *item;
  }
  return "[" + list + "]";
}

/// An attempt to match the node's arguments to the schema of an overload.
class Attempt {
 public:
  Attempt(const LegacyNode& node, const aten::Operator& op, Constants& constants)
      : node_(node), op_(op), constants_(constants) {}

  /// Returns the penalty of the match, or nullopt if the arguments do not fit.
  std::optional<int> Fit() {
    const std::vector<Parameter>& parameters = op_.schema.parameters;
    if (node_.inputs.size() > parameters.size()) return std::nullopt;
    for (const auto& [name, attribute] : node_.attributes) {
      const auto is_called = [name = name](const Parameter& known) { return known.name == name; };
      if (std::none_of(parameters.begin(), parameters.end(), is_called)) return std::nullopt;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::optional<std::string> text;
      const bool is_input = i < node_.inputs.size() && !node_.inputs[i].empty();
      text = is_input ? FromInput(node_.inputs[i], parameters[i].type) : FromElse(parameters[i]);
      if (!text) return std::nullopt;
      if (text->empty()) continue;  // the default is not written
      arguments_ +=
          (arguments_.empty() ? "" : ", ") + std::string(parameters[i].name) + "=" + *text;
    }
    return penalty_;
  }

  const aten::Operator& op() const { return op_; }
  std::string arguments() const { return "(" + arguments_ + ")"; }
  const std::vector<std::string_view>& inputs() const { return inputs_; }

 private:
  std::string Place(std::string_view input) {
    inputs_.push_back(input);
    return "%" + std::to_string(inputs_.size() - 1);
  }

  std::optional<std::string> FromInput(std::string_view input, const Type& type) {
    const Constant* const constant = constants_.Find(input);
    const std::vector<std::string_view>* const sequence = constants_.FindSequence(input);
    if (type.kind == aten::Kind::kTensor && type.is_list) {
      if (sequence == nullptr) return std::nullopt;
      std::string list;
      for (const std::string_view member : *sequence) {
        list += (list.empty() ? "" : ", ") + Place(member);
      }
      return "[" + list + "]";
    }
    if (sequence != nullptr || type.kind == aten::Kind::kGenerator) return std::nullopt;
    if (type.kind == aten::Kind::kTensor) {
      if (constant != nullptr && constant->kind == Constant::Kind::kText) return std::nullopt;
      if (constant != nullptr && constant->rank == 0) penalty_ += 2;  // more likely a number
      return Place(input);
    }
    if (type.kind == aten::Kind::kScalar)
      ++penalty_;  // libtorch's C interface does not take scalars
    if (constant != nullptr) return ConstantText(*constant, type);
    ++penalty_;
    const std::string_view kind = type.kind == aten::Kind::kInt     ? "int"
                                  : type.kind == aten::Kind::kFloat ? "float"
                                  : type.kind == aten::Kind::kBool  ? "bool"
                                                                    : "";
    if (kind.empty()) return std::nullopt;
    return std::string(kind) + (type.is_list ? "s(" : "(") + Place(input) + ")";
  }

  /// Returns an argument that is not an input: an attribute, or the default.
  std::optional<std::string> FromElse(const Parameter& parameter) const {
    for (const auto& [name, attribute] : node_.attributes) {
      if (name != parameter.name) continue;
      return FromAttribute(attribute, parameter.type);
    }
    if (parameter.type.is_optional) return "null";
    return parameter.default_text.empty() ? std::nullopt : std::optional<std::string>("");
  }

  static std::optional<std::string> FromAttribute(std::string_view attribute, const Type& type) {
    Constant constant;
    bool is_found = false;
    for (FieldReader reader(attribute); reader.Next();) {
      const Field& field = reader.field();
      std::vector<float> floats;
      switch (field.tag()) {
        case tag::kAttributeInt: constant.integers.push_back(field.Integer()); break;
        case tag::kAttributeInts: field.AppendTo(&constant.integers); break;
        case tag::kAttributeFloat: floats.push_back(field.Float()); break;
        case tag::kAttributeFloats: field.AppendTo(&floats); break;
        case tag::kAttributeString:
          constant.kind = Constant::Kind::kText;
          constant.text = field.Bytes();
          break;
        default: continue;
      }
      is_found = true;
      if (floats.empty()) continue;
      constant.kind = Constant::Kind::kReals;
      constant.reals.insert(constant.reals.end(), floats.begin(), floats.end());
    }
    if (!is_found && !type.is_list) return std::nullopt;  // an empty list has no fields
    return ConstantText(constant, type);
  }

  const LegacyNode& node_;
  const aten::Operator& op_;
  Constants& constants_;
  std::string arguments_;
  std::vector<std::string_view> inputs_;
  int penalty_ = 0;
};

/// Guesses the type of a result that the graph does not declare: usually that of the first tensor.
std::string_view GuessType(const aten::Schema& schema, std::string_view result, int first) {
  static const std::set<std::string_view> kIndices = {
      "argmax",        "argmin",  "argsort",   "argwhere", "bincount",
      "count_nonzero", "nonzero", "bucketize", "one_hot",  "searchsorted"};
  static const std::set<std::string_view> kTruths = {
      "eq",       "ne",      "lt",          "le",         "gt",          "ge",       "isnan",
      "isinf",    "isclose", "isfinite",    "isin",       "isreal",      "all",      "any",
      "isneginf", "signbit", "logical_and", "logical_or", "logical_not", "isposinf", "logical_xor"};
  if (result == "indices" || kIndices.count(schema.name) != 0) return "int64";
  if (result == "pivots" || result == "info") return "int32";
  if (kTruths.count(schema.name) != 0) return "bool";
  const aten::Dtype* const dtype = aten::FindDtype(first, false);
  return dtype != nullptr ? dtype->name : "float32";
}

std::string ResultsText(const LegacyNode& node, const Attempt& attempt,
                        const DeclaredValues& declared) {
  int first = 0;
  for (const std::string_view input : attempt.inputs()) {
    if (first == 0) first = static_cast<int>(declared.TypeOf(input));
  }
  const aten::Schema& schema = attempt.op().schema;
  std::size_t output = 0;
  const auto tensor = [&](std::string_view name) {
    const bool is_present = output < node.outputs.size() && !node.outputs[output].empty();
    const auto type = is_present ? static_cast<int>(declared.TypeOf(node.outputs[output])) : 0;
    const aten::Dtype* const dtype = aten::FindDtype(type, false);
    ++output;
    return std::string(dtype != nullptr ? dtype->name : GuessType(schema, name, first)) + "[...]";
  };
  std::string text;
  for (const aten::Result& result : schema.results) {
    std::string written;
    if (result.type.is_list) {
      while (output < node.outputs.size()) written += (written.empty() ? "[" : ", ") + tensor("");
      written += written.empty() ? "[]" : "]";
    } else if (result.type.kind != aten::Kind::kTensor) {
      written = aten::NameOf(result.type.kind);
      ++output;
    } else {
      written = tensor(result.name);
    }
    text += (text.empty() ? "" : ", ") + written;
  }
  return text;
}

std::string TextAttribute(std::string_view name, const std::string& text) {
  std::string written;
  protozero::pbf_writer writer(written);
  writer.add_string(tag::kAttributeName, name.data(), name.size());
  writer.add_string(tag::kAttributeString, text);
  writer.add_enum(tag::kAttributeType, tag::kString);
  return written;
}

std::string Write(const LegacyNode& node, const Attempt& attempt, const std::string& results) {
  std::string written;
  protozero::pbf_writer writer(written);
  for (const std::string_view input : attempt.inputs()) {
    writer.add_string(tag::kNodeInput, input.data(), input.size());
  }
  for (const std::string_view output : node.outputs) {
    writer.add_string(tag::kNodeOutput, output.data(), output.size());
  }
  if (!node.name.empty()) writer.add_string(tag::kNodeName, node.name.data(), node.name.size());
  writer.add_string(tag::kNodeOpType, kAtenOpType);
  writer.add_string(tag::kNodeDomain, kAtenDomain);
  const aten::Schema& schema = attempt.op().schema;
  std::string encoding;
  protozero::pbf_writer number(encoding);
  number.add_string(tag::kAttributeName, "encoding");
  number.add_int64(tag::kAttributeInt, 1);
  number.add_enum(tag::kAttributeType, tag::kInt);
  writer.add_message(tag::kNodeAttribute, encoding);
  writer.add_message(tag::kNodeAttribute,
                     TextAttribute("operator", "aten::" + std::string(schema.name)));
  writer.add_message(tag::kNodeAttribute,
                     TextAttribute("overload_name", std::string(schema.overload)));
  writer.add_message(tag::kNodeAttribute, TextAttribute("arguments", attempt.arguments()));
  writer.add_message(tag::kNodeAttribute, TextAttribute("results", results));
  return written;
}

}  // namespace

Status ConvertLegacyAten(std::string_view node, const NodeHead& head,
                         const DeclaredValues& declared, Constants& constants,
                         std::string* written) {
  LegacyNode legacy;
  if (Status status = ReadNode(node, head, &legacy); !status.ok()) return status;
  const std::string_view name = aten::WithoutNamespace(legacy.operator_name);
  const std::vector<aten::Operator> overloads = aten::FindOperators(name);
  std::optional<Attempt> best;
  int lowest = 0;
  std::string tried;
  for (const aten::Operator& op : overloads) {
    if (!legacy.overload.empty() && op.schema.overload != legacy.overload) continue;
    Attempt attempt(legacy, op, constants);
    const std::optional<int> penalty = attempt.Fit();
    tried += (tried.empty() ? "" : ", ") + op.schema.FullName();
    if (!penalty || (best && *penalty >= lowest)) continue;
    lowest = *penalty;
    best.emplace(std::move(attempt));
  }
  if (!best) {
    return Status::Model(legacy.who +
                         (tried.empty()
                              ? ": there is no such operator, or it writes to its arguments or "
                                "needs arguments that a node cannot hold"
                              : ": the node's inputs and attributes fit none of " + tried) +
                         ". Fix: export the model with opgraft.torch.export");
  }
  *written = Write(legacy, *best, ResultsText(legacy, *best, declared));
  return Status();
}

}  // namespace opgraft::model
