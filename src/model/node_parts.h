// The inputs, outputs and attributes of a node, as views of its bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/pyop_node.h"

namespace opgraft::model {

struct NodeParts {
  std::string_view bytes;
  NodeHead head;
  std::vector<std::string_view> inputs;      ///< "" if the input is absent
  std::vector<std::string_view> outputs;     ///< "" if the output is absent
  std::vector<std::string_view> attributes;  ///< AttributeProtos

  explicit NodeParts(std::string_view node) : bytes(node), head(ReadHead(node)) {
    for (FieldReader reader(node); reader.Next();) {
      const Field& field = reader.field();
      if (field.tag() == tag::kNodeInput) inputs.push_back(field.Bytes());
      if (field.tag() == tag::kNodeOutput) outputs.push_back(field.Bytes());
      if (field.tag() == tag::kNodeAttribute) attributes.push_back(field.Bytes());
    }
  }

  /// Returns the AttributeProto with this name, or an empty one.
  std::string_view Find(std::string_view name) const {
    for (const std::string_view attribute : attributes) {
      if (ReadText(attribute, tag::kAttributeName) == name) return attribute;
    }
    return {};
  }

  /// Returns the attribute's integer, or `otherwise` if there is no such attribute.
  std::int64_t Integer(std::string_view name, std::int64_t otherwise) const {
    const std::string_view attribute = Find(name);
    std::int64_t integer = attribute.empty() ? otherwise : 0;
    for (FieldReader reader(attribute); reader.Next();) {
      if (reader.field().tag() == tag::kAttributeInt) integer = reader.field().Integer();
    }
    return integer;
  }
};

}  // namespace opgraft::model
