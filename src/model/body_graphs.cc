// A graph with an input becomes one without, which reads an outer value of the input's name.
#include "model/body_graphs.h"

#include <protozero/pbf_writer.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// Returns the attribute that the node's then_branch refers to, or "".
std::string_view GraphOf(std::string_view node) {
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const std::string_view attribute = reader.field().Bytes();
    if (ReadText(attribute, tag::kAttributeName) != "then_branch") continue;
    return ReadText(attribute, tag::kAttributeReference);
  }
  return {};
}

std::set<std::string_view> ValuesOf(std::string_view function) {
  std::set<std::string_view> values;
  for (FieldReader reader(function); reader.Next();) {
    if (reader.field().tag() == tag::kFunctionInput) values.insert(reader.field().Bytes());
    if (reader.field().tag() != tag::kFunctionNode) continue;
    for (FieldReader node(reader.field().Bytes()); node.Next();) {
      if (node.field().tag() == tag::kNodeOutput) values.insert(node.field().Bytes());
    }
  }
  return values;
}

}  // namespace

std::string PutGraphs(const BodyNode& node, const std::string& bytes) {
  const std::set<std::string_view> values = ValuesOf(bytes);
  std::set<std::string_view> taken;
  std::string written;
  protozero::pbf_writer writer(written);
  for (FieldReader reader(bytes); reader.Next();) {
    const std::string_view body_node = reader.field().Bytes();
    const std::string_view name =
        reader.field().tag() == tag::kFunctionNode ? GraphOf(body_node) : std::string_view();
    if (name.empty()) {
      written.append(reader.field().slice());
      continue;
    }
    const std::string_view graph = node.Graph(name);
    std::string without_inputs;
    std::vector<std::string_view> inputs;
    std::size_t outputs = 0;
    for (FieldReader fields(graph); fields.Next();) {
      const Field& field = fields.field();
      outputs += static_cast<std::size_t>(field.tag() == tag::kGraphOutput);
      if (field.tag() == tag::kGraphInput) {
        inputs.push_back(ReadText(field.Bytes(), tag::kValueName));
      } else {
        without_inputs.append(field.slice());
      }
    }
    if (inputs.size() != 1 || outputs != 1) {
      throw NoBodyError("its graph '" + std::string(name) + "' has " +
                        std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs) +
                        " outputs, expected one of each");
    }
    if (inputs[0].empty() || values.contains(inputs[0]) || !taken.insert(inputs[0]).second) {
      throw NoBodyError("the input of its graph '" + std::string(name) + "' is called '" +
                        std::string(inputs[0]) +
                        "', which its body uses for another value. Fix: call it otherwise");
    }
    std::string identity;
    std::string conditional;
    protozero::pbf_writer identity_writer(identity);
    protozero::pbf_writer conditional_writer(conditional);
    std::size_t place = 0;
    for (FieldReader fields(body_node); fields.Next();) {
      const Field& field = fields.field();
      const bool is_value = field.tag() == tag::kNodeInput && place++ == 1;
      if (is_value) {
        identity_writer.add_string(tag::kNodeInput, field.Bytes().data(), field.Bytes().size());
      } else if (field.tag() == tag::kNodeAttribute &&
                 ReadText(field.Bytes(), tag::kAttributeReference) == name) {
        std::string attribute;
        protozero::pbf_writer attribute_writer(attribute);
        attribute_writer.add_string(tag::kAttributeName, "then_branch");
        attribute_writer.add_message(tag::kAttributeGraph, without_inputs);
        attribute_writer.add_enum(tag::kAttributeType, tag::kGraphAttribute);
        conditional_writer.add_message(tag::kNodeAttribute, attribute);
      } else {
        conditional.append(field.slice());
      }
    }
    identity_writer.add_string(tag::kNodeOutput, inputs[0].data(), inputs[0].size());
    identity_writer.add_string(tag::kNodeOpType, "Identity");
    writer.add_message(tag::kFunctionNode, identity);
    writer.add_message(tag::kFunctionNode, conditional);
  }
  return written;
}

}  // namespace opgraft::model
