// Reads the attributes of a node, and what the graph declares about its inputs.
#include "model/body_node.h"

#include <charconv>

#include "base/text.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

BodyNode::BodyNode(std::string_view node, std::int64_t version, const DeclaredValues& declared)
    : version_(version), declared_(declared) {
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kNodeInput: inputs_.push_back(field.Bytes()); break;
      case tag::kNodeOutput: outputs_.push_back(field.Bytes()); break;
      case tag::kNodeAttribute:
        attributes_[ReadText(field.Bytes(), tag::kAttributeName)] = field.Bytes();
        break;
    }
  }
}

std::string_view BodyNode::Find(std::string_view attribute, std::int64_t kind) const {
  const auto found = attributes_.find(attribute);
  if (found == attributes_.end()) return {};
  const std::int64_t type = ReadAttributeHead(found->second).type;
  if (type != kind) {
    throw NoBodyError("its attribute '" + std::string(attribute) + "' is of ONNX's kind " +
                      tag::AttributeTypeName(type) + ", expected " + tag::AttributeTypeName(kind));
  }
  return found->second;
}

std::int64_t BodyNode::Integer(std::string_view attribute, std::int64_t preset) const {
  const std::string_view found = Find(attribute, tag::kInt);
  if (found.empty()) return preset;
  std::int64_t value = 0;
  for (FieldReader reader(found); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeInt) value = reader.field().Integer();
  }
  return value;
}

std::int64_t BodyNode::IntegerFrom(std::int64_t least, std::string_view attribute,
                                   std::int64_t preset) const {
  const std::int64_t value = Integer(attribute, preset);
  if (value >= least) return value;
  throw NoBodyError("its attribute '" + std::string(attribute) + "' is " + std::to_string(value) +
                    ", expected at least " + std::to_string(least));
}

float BodyNode::Real(std::string_view attribute, float preset) const {
  const std::string_view found = Find(attribute, tag::kFloat);
  if (found.empty()) return preset;
  float value = 0;
  for (FieldReader reader(found); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeFloat) value = reader.field().Float();
  }
  return value;
}

std::string_view BodyNode::Text(std::string_view attribute, std::string_view preset) const {
  const std::string_view found = Find(attribute, tag::kString);
  return found.empty() ? preset : ReadText(found, tag::kAttributeString);
}

std::string_view BodyNode::Graph(std::string_view attribute) const {
  return ReadText(Find(attribute, tag::kGraphAttribute), tag::kAttributeGraph);
}

std::int64_t BodyNode::TypeOf(std::size_t place) const {
  return HasInput(place) ? declared_.TypeOf(inputs_[place]) : 0;
}

pyop::DeclaredShape BodyNode::ShapeOf(std::size_t place) const {
  return HasInput(place) ? declared_.ShapeOf(inputs_[place]) : std::nullopt;
}

std::int64_t BodyNode::NeededType(std::size_t place) const {
  if (const std::int64_t type = TypeOf(place); type != 0) return type;
  throw NoBodyError("its body depends on the type of '" +
                    ReadableName(HasInput(place) ? inputs_[place] : "") +
                    "', which the model does not declare. Fix: run onnx.shape_inference on it");
}

std::string AsText(float number) {
  char text[64];
  const auto done = std::to_chars(std::begin(text), std::end(text), number);
  return std::string(text, done.ptr);
}

}  // namespace opgraft::model
