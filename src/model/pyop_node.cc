// Reads and writes PyOp nodes; docs/format.md describes the written form.
#include "model/pyop_node.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/element_type.h"
#include "base/text.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

namespace name = pyop::attribute;

struct AttributeValue {
  std::string_view name;
  std::int64_t type = 0;
  std::int64_t integer = 0;
  std::string_view text;
  std::vector<std::int64_t> integers;
};

AttributeValue ReadAttribute(std::string_view attribute) {
  AttributeValue value;
  for (FieldReader reader(attribute); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kAttributeName: value.name = field.Bytes(); break;
      case tag::kAttributeType: value.type = field.Integer(); break;
      case tag::kAttributeInt: value.integer = field.Integer(); break;
      case tag::kAttributeString: value.text = field.Bytes(); break;
      case tag::kAttributeInts: field.AppendTo(&value.integers); break;
    }
  }
  return value;
}

/// Stores an attribute that PyOp itself defines; `is_known` is false for any other attribute.
Status TakeAttribute(const AttributeValue& value, bool is_canonical, PyOpNode* node,
                     bool* is_known) {
  pyop::Spec& spec = node->spec;
  std::vector<std::int64_t> shapes;
  const std::pair<std::string_view, std::string*> texts[] = {
      {name::kModule, &spec.module},
      {name::kClassName, &spec.class_name},
      {name::kCompute, &spec.compute},
      {name::kArguments, is_canonical ? &spec.arguments : nullptr},
      {name::kOperator, is_canonical ? &spec.operator_name : nullptr},
  };
  const std::pair<std::string_view, std::vector<std::int64_t>*> lists[] = {
      {name::kInputTypes, &spec.input_types},
      {name::kOutputTypes, &spec.output_types},
      {name::kInputPlaces, is_canonical ? &spec.input_places : nullptr},
      {name::kOutputPlaces, is_canonical ? &spec.output_places : nullptr},
      {name::kOutputShapes, is_canonical ? &shapes : nullptr},
  };
  const auto wrong_kind = [&](const char* expected) {
    return Status::Model("node '" + ReadableName(spec.node) + "', a PyOp: attribute '" +
                         ReadableName(value.name) + "' is of ONNX's kind " +
                         tag::AttributeTypeName(value.type) + ", expected " + expected);
  };
  *is_known = true;
  for (const auto& [known, text] : texts) {
    if (value.name != known || text == nullptr) continue;
    if (value.type != tag::kString) return wrong_kind("a string (STRING)");
    *text = value.text;
    return Status();
  }
  for (const auto& [known, list] : lists) {
    if (value.name != known || list == nullptr) continue;
    if (value.type != tag::kInts) return wrong_kind("a list of integers (INTS)");
    *list = value.integers;
    if (list == &shapes && !pyop::Unpack(shapes, &spec.output_shapes)) {
      return wrong_kind("a list of ranks, each with its dimensions");
    }
    return Status();
  }
  *is_known = is_canonical;  // it has no free attributes; "format" is read elsewhere
  return Status();
}

/// Checks the node's types of inputs or outputs against those that the graph declares.
Status CheckDeclaredTypes(const pyop::Spec& spec, const DeclaredValues& declared,
                          const std::string& attribute, const std::vector<std::string_view>& values,
                          const std::vector<std::int64_t>& types) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t type = declared.TypeOf(values[i]);
    if (type == 0 || type == types[i]) continue;
    return Status::Model(spec.Who() + ": '" + std::string(values[i]) + "' is " +
                         ElementTypeName(types[i]) + " in '" + attribute +
                         "', but the graph declares it as " + ElementTypeName(type));
  }
  return Status();
}

std::string Attribute(std::string_view name, tag::AttributeType type, const auto& write_value) {
  std::string attribute;
  protozero::pbf_writer writer(attribute);
  writer.add_string(tag::kAttributeName, name.data(), name.size());
  write_value(writer);
  writer.add_enum(tag::kAttributeType, type);
  return attribute;
}

std::string TextAttribute(std::string_view name, const std::string& text) {
  return Attribute(name, tag::kString, [&](protozero::pbf_writer& writer) {
    writer.add_bytes(tag::kAttributeString, text);
  });
}

std::string IntegersAttribute(std::string_view name, const std::vector<std::int64_t>& integers) {
  return Attribute(name, tag::kInts, [&](protozero::pbf_writer& writer) {
    for (const std::int64_t integer : integers) writer.add_int64(tag::kAttributeInts, integer);
  });
}

/// Writes the same bytes as TextAttribute, without copying a text that may be large.
Rope ArgumentsAttribute(std::string arguments) {
  std::string head;
  protozero::pbf_writer(head).add_string(tag::kAttributeName, name::kArguments);
  std::string tail;
  protozero::pbf_writer(tail).add_enum(tag::kAttributeType, tag::kString);
  Rope value;
  value.Own(std::move(arguments));
  Rope attribute;
  attribute.Own(std::move(head));
  attribute.AddMessage(tag::kAttributeString, std::move(value));
  attribute.Own(std::move(tail));
  return attribute;
}

}  // namespace

NodeHead ReadHead(std::string_view node) {
  NodeHead head;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kNodeName: head.name = field.Bytes(); break;
      case tag::kNodeOpType: head.op_type = field.Bytes(); break;
      case tag::kNodeDomain: head.domain = field.Bytes(); break;
      case tag::kNodeOverload: head.overload = field.Bytes(); break;
      case tag::kNodeMetadata:
        if (ReadText(field.Bytes(), tag::kEntryKey) == kNodeModuleKey) {
          head.module = ReadText(field.Bytes(), tag::kEntryValue);
        }
        break;
    }
  }
  if (!head.op_type.starts_with(pyop::kOpType)) return head;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    head.has_format |= ReadText(reader.field().Bytes(), tag::kAttributeName) == name::kFormat;
  }
  return head;
}

AttributeHead ReadAttributeHead(std::string_view attribute) {
  AttributeHead head;
  for (FieldReader reader(attribute); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kAttributeName) head.name = field.Bytes();
    if (field.tag() == tag::kAttributeType) head.type = field.Integer();
    if (field.tag() == tag::kAttributeReference) head.is_reference = !field.Bytes().empty();
  }
  return head;
}

Status CheckAttributes(std::string_view node, const NodeHead& head) {
  std::vector<std::string_view> names;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const AttributeHead attribute = ReadAttributeHead(reader.field().Bytes());
    const auto refuse = [&](const std::string& why) {
      return Status::Model("node '" + ReadableName(NodeName(node, head)) + "', operator " +
                           ReadableName(Normalized(head.domain)) +
                           "::" + ReadableName(head.op_type) + ": attribute '" +
                           ReadableName(attribute.name) + "' " + why);
    };
    if (attribute.is_reference) {
      return refuse(
          "refers to an attribute of a function (ref_attr_name), but the node is not in a "
          "function, "
          "so that it has no value. Fix: give the attribute its value");
    }
    if (std::find(names.begin(), names.end(), attribute.name) != names.end()) {
      return refuse("is given twice");
    }
    names.push_back(attribute.name);
  }
  return Status();
}

Status CheckKind(std::string_view attribute, std::int64_t expected, const std::string& who) {
  const AttributeHead head = ReadAttributeHead(attribute);
  if (head.type == expected) return Status();
  return Status::Model(who + ": attribute '" + ReadableName(head.name) + "' is of ONNX's kind " +
                       tag::AttributeTypeName(head.type) + ", expected " +
                       tag::AttributeTypeName(expected));
}

std::string NodeName(std::string_view node, const NodeHead& head) {
  if (!head.name.empty()) return std::string(head.name);
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeOutput) continue;
    return std::string(head.op_type) + "_" + std::string(reader.field().Bytes());
  }
  return std::string(head.op_type);
}

std::vector<std::string_view> PyOpNode::PresentInputs() const {
  std::vector<std::string_view> present = inputs;
  std::erase(present, "");
  return present;
}

std::vector<Field> ReadParts(std::string_view node, const NodeHead& head, PyOpNode* read) {
  std::vector<Field> attributes;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kNodeInput: read->inputs.push_back(field.Bytes()); break;
      case tag::kNodeOutput: read->outputs.push_back(field.Bytes()); break;
      case tag::kNodeName:
      case tag::kNodeOpType:
      case tag::kNodeDomain:
      case tag::kNodeOverload: break;
      case tag::kNodeAttribute: attributes.push_back(field); break;
      default: read->rest.Borrow(field.slice());
    }
  }
  read->spec.node = NodeName(node, head);
  return attributes;
}

Status ReadPyOp(std::string_view node, PyOpNode* read) {
  const NodeHead head = ReadHead(node);
  std::string arguments;
  for (const Field& attribute : ReadParts(node, head, read)) {
    bool is_known = false;
    Status status =
        TakeAttribute(ReadAttribute(attribute.Bytes()), head.IsCanonical(), read, &is_known);
    if (!status.ok()) return status;
    if (!is_known) arguments += attribute.slice();
  }
  if (!head.IsCanonical()) read->spec.arguments = std::move(arguments);
  return Status();
}

Status Complete(const DeclaredValues& declared, PyOpNode* node) {
  pyop::Spec& spec = node->spec;
  const std::size_t present = node->PresentInputs().size();
  if (present != node->inputs.size()) {
    std::int64_t next = 0;
    for (const std::string_view input : node->inputs) {
      spec.input_places.push_back(input.empty() ? pyop::kUnknown : next++);
    }
  }
  if (Status status = Check(spec, present, node->outputs.size()); !status.ok()) return status;
  for (const std::string_view output : node->outputs) {
    spec.output_shapes.push_back(declared.ShapeOf(output));
  }
  Status status =
      CheckDeclaredTypes(spec, declared, name::kOutputTypes, node->outputs, spec.output_types);
  if (!status.ok() || spec.input_types.empty()) return status;
  return CheckDeclaredTypes(spec, declared, name::kInputTypes, node->inputs, spec.input_types);
}

Rope WriteCanonical(PyOpNode* node) {
  const pyop::Spec& spec = node->spec;
  std::string written;
  protozero::pbf_writer writer(written);
  for (const std::string_view input : node->PresentInputs()) {
    writer.add_string(tag::kNodeInput, input.data(), input.size());
  }
  for (const std::string_view output : node->outputs) {
    writer.add_string(tag::kNodeOutput, output.data(), output.size());
  }
  writer.add_string(tag::kNodeName, spec.node);
  writer.add_string(tag::kNodeOpType, node->op_type);
  const auto add = [&](const std::string& attribute) {
    writer.add_message(tag::kNodeAttribute, attribute);
  };
  add(Attribute(name::kFormat, tag::kInt, [&](protozero::pbf_writer& value) {
    const std::int64_t declared = spec.on_gpu ? pyop::kGpuFormat : pyop::kDeclaredFormat;
    value.add_int64(tag::kAttributeInt, spec.IsDeclared() ? declared : pyop::kFormat);
  }));
  add(TextAttribute(name::kModule, spec.module));
  if (spec.IsDeclared()) {
    add(TextAttribute(name::kOperator, spec.operator_name));
  } else {
    add(TextAttribute(name::kClassName, spec.class_name));
    add(TextAttribute(name::kCompute, spec.compute));
  }
  if (!spec.input_types.empty()) add(IntegersAttribute(name::kInputTypes, spec.input_types));
  if (!spec.output_types.empty()) add(IntegersAttribute(name::kOutputTypes, spec.output_types));
  if (!spec.input_places.empty()) add(IntegersAttribute(name::kInputPlaces, spec.input_places));
  if (!spec.output_places.empty()) add(IntegersAttribute(name::kOutputPlaces, spec.output_places));
  const auto is_declared = [](const pyop::DeclaredShape& shape) { return shape.has_value(); };
  if (std::any_of(spec.output_shapes.begin(), spec.output_shapes.end(), is_declared)) {
    add(IntegersAttribute(name::kOutputShapes, pyop::Pack(spec.output_shapes)));
  }
  Rope rope;
  rope.Own(std::move(written));
  if (!spec.arguments.empty()) {
    rope.AddMessage(tag::kNodeAttribute, ArgumentsAttribute(std::move(node->spec.arguments)));
  }
  std::string domain;
  protozero::pbf_writer(domain).add_string(tag::kNodeDomain, pyop::kDomain);
  rope.Own(std::move(domain));
  rope.Append(std::move(node->rest));
  return rope;
}

}  // namespace opgraft::model
