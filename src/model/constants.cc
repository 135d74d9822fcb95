// Reads initializers, and the nodes Constant and SequenceConstruct.
#include "model/constants.h"

#include <cstring>

#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/pyop_node.h"

namespace opgraft::model {
namespace {

/// Lists that serve as arguments are short. Longer ones are weights, which are not read.
constexpr std::size_t kMostNumbers = 64;

template <class T, class To>
void ReadRaw(std::string_view raw, std::vector<To>* numbers) {
  for (std::size_t i = 0; i + sizeof(T) <= raw.size(); i += sizeof(T)) {
    T number;
    std::memcpy(&number, raw.data() + i, sizeof(T));
    numbers->push_back(static_cast<To>(number));
  }
}

/// Returns false for a tensor that cannot be an argument: it has too many numbers, another element
/// type, or external data.
bool ReadTensor(std::string_view tensor, Constant* constant, std::string_view* name) {
  std::int64_t type = 0;
  std::string_view raw;
  std::vector<std::int64_t> sizes;
  std::vector<float> floats;
  if (tensor.size() > 4096) return false;
  for (FieldReader reader(tensor); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kTensorDimensions: field.AppendTo(&sizes); break;
      case tag::kTensorDataType: type = field.Integer(); break;
      case tag::kTensorName: *name = field.Bytes(); break;
      case tag::kTensorRaw: raw = field.Bytes(); break;
      case tag::kTensorInt32s:
      case tag::kTensorInt64s: field.AppendTo(&constant->integers); break;
      case tag::kTensorFloats: field.AppendTo(&floats); break;
      case tag::kTensorDoubles: field.AppendTo(&constant->reals); break;
      case tag::kTensorDataLocation:
        if (field.Integer() == tag::kExternal) return false;
        break;
      default: break;
    }
  }
  constant->rank = sizes.size();
  constant->reals.insert(constant->reals.end(), floats.begin(), floats.end());
  std::size_t expected = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > static_cast<std::int64_t>(kMostNumbers)) return false;
    expected *= static_cast<std::size_t>(size);
  }
  switch (type) {
    case 1: ReadRaw<float>(raw, &constant->reals); break;
    case 6: ReadRaw<std::int32_t>(raw, &constant->integers); break;
    case 7: ReadRaw<std::int64_t>(raw, &constant->integers); break;
    case 9: ReadRaw<std::uint8_t>(raw, &constant->integers); break;
    case 11: ReadRaw<double>(raw, &constant->reals); break;
    default: return false;
  }
  const bool is_real = type == 1 || type == 11;
  constant->kind = is_real     ? Constant::Kind::kReals
                   : type == 9 ? Constant::Kind::kBools
                               : Constant::Kind::kIntegers;
  return expected <= kMostNumbers && constant->rank <= 1 &&
         (is_real ? constant->reals.size() : constant->integers.size()) == expected;
}

/// Reads the value of a Constant node from any attribute that can hold it.
bool ReadConstant(std::string_view attribute, Constant* constant) {
  const AttributeHead head = ReadAttributeHead(attribute);
  for (FieldReader reader(attribute); reader.Next();) {
    const Field& field = reader.field();
    std::string_view name;
    if (head.name == "value" && field.tag() == tag::kAttributeTensor) {
      return ReadTensor(field.Bytes(), constant, &name);
    }
    // torch's exporter writes a text as `value`, although ONNX calls that attribute value_string.
    const bool is_text = head.name == "value" || head.name == "value_string";
    if (is_text && field.tag() == tag::kAttributeString) {
      constant->kind = Constant::Kind::kText;
      constant->text = field.Bytes();
      return true;
    }
    if (head.name == "value_int" && field.tag() == tag::kAttributeInt) {
      constant->integers.push_back(field.Integer());
      return true;
    }
    if (head.name == "value_float" && field.tag() == tag::kAttributeFloat) {
      constant->kind = Constant::Kind::kReals;
      constant->reals.push_back(static_cast<double>(field.Float()));
      return true;
    }
    if (head.name == "value_ints" && field.tag() == tag::kAttributeInts) {
      field.AppendTo(&constant->integers);
      constant->rank = 1;
    }
  }
  return constant->rank == 1 && constant->integers.size() <= kMostNumbers;
}

}  // namespace

void Constants::ReadNode(std::string_view node) {
  const NodeHead head = ReadHead(node);
  const bool is_sequence = head.op_type == "SequenceConstruct";
  if (!IsDefaultDomain(head.domain) || (head.op_type != "Constant" && !is_sequence)) return;
  std::vector<std::string_view> inputs;
  std::string_view output;
  Constant constant;
  bool is_constant = false;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kNodeInput) inputs.push_back(field.Bytes());
    if (field.tag() == tag::kNodeOutput) output = field.Bytes();
    if (field.tag() == tag::kNodeAttribute) is_constant |= ReadConstant(field.Bytes(), &constant);
  }
  if (is_sequence) sequences_.emplace(output, std::move(inputs));
  if (is_constant) constants_.emplace(output, std::move(constant));
}

void Constants::Read() {
  if (is_read_) return;
  is_read_ = true;
  std::vector<std::string_view> inputs;  // a caller can override an initializer that is an input
  for (FieldReader reader(graph_); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraphInput) inputs.push_back(ReadText(field.Bytes(), tag::kValueName));
    if (field.tag() == tag::kGraphNode) ReadNode(field.Bytes());
    if (field.tag() != tag::kGraphInitializer) continue;
    Constant constant;
    std::string_view name;
    if (ReadTensor(field.Bytes(), &constant, &name)) constants_.emplace(name, std::move(constant));
  }
  for (const std::string_view input : inputs) constants_.erase(input);
}

const Constant* Constants::Find(std::string_view name) {
  Read();
  const auto found = constants_.find(name);
  return found != constants_.end() ? &found->second : nullptr;
}

const std::vector<std::string_view>* Constants::FindSequence(std::string_view name) {
  Read();
  const auto found = sequences_.find(name);
  return found != sequences_.end() ? &found->second : nullptr;
}

}  // namespace opgraft::model
