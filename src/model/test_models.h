// Writes models as bytes and takes them apart again, for the tests of this folder.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/python_spec.h"

namespace opgraft::model::testing {

using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

// A message is a sequence of fields, each with its tag and length.
inline std::string Text(std::uint32_t tag, const std::string& text) {
  std::string field;
  protozero::pbf_writer(field).add_bytes(tag, text);
  return field;
}

inline std::string Integer(std::uint32_t tag, std::int64_t integer) {
  std::string field;
  protozero::pbf_writer(field).add_int64(tag, integer);
  return field;
}

/// Returns an attribute as a field of its node.
inline std::string Attribute(const std::string& name, std::int64_t type, const std::string& value) {
  return Text(tag::kNodeAttribute,
              Text(tag::kAttributeName, name) + value + Integer(tag::kAttributeType, type));
}

inline std::string TextAttribute(const std::string& name, const std::string& text) {
  return Attribute(name, tag::kString, Text(tag::kAttributeString, text));
}

inline std::string IntegersAttribute(const std::string& name, const Integers& integers) {
  std::string value;
  for (const std::int64_t integer : integers) value += Integer(tag::kAttributeInts, integer);
  return Attribute(name, tag::kInts, value);
}

inline std::string Node(const std::string& op_type, const std::string& domain, const Texts& inputs,
                        const Texts& outputs, const std::string& attributes = "") {
  std::string node;
  for (const std::string& input : inputs) node += Text(tag::kNodeInput, input);
  for (const std::string& output : outputs) node += Text(tag::kNodeOutput, output);
  return node + Text(tag::kNodeOpType, op_type) + attributes + Text(tag::kNodeDomain, domain);
}

inline std::string PyOp(const Texts& inputs = {"x"}, const Texts& outputs = {"y"}) {
  return Node("PyOp", "my.domain", inputs, outputs,
              TextAttribute("module", "my.module") + TextAttribute("class_name", "Class") +
                  IntegersAttribute("output_types", Integers(outputs.size(), 1)));
}

inline std::string Graph(const Texts& nodes) {
  std::string graph;
  for (const std::string& node : nodes) graph += Text(tag::kGraphNode, node);
  return graph;
}

/// Returns a node with a graph inside it.
inline std::string If(const std::string& graph) {
  return Node("If", "", {"condition"}, {"y"},
              Attribute("then_branch", 5, Text(tag::kAttributeGraph, graph)));
}

/// Returns a ValueInfoProto; without an element type if it is 0, without a rank if there is no
/// shape.
inline std::string Value(const std::string& name, std::int64_t type,
                         const pyop::DeclaredShape& shape) {
  std::string tensor = type == 0 ? "" : Integer(tag::kElementType, type);
  std::string dimensions;
  for (const std::int64_t size : shape.value_or(Integers())) {
    dimensions += Text(tag::kDimension, size < 0 ? Text(2, "any") : Integer(1, size));
  }
  if (shape) tensor += Text(tag::kTensorShape, dimensions);
  return Text(tag::kValueName, name) + Text(tag::kValueType, Text(tag::kTensorType, tensor));
}

inline std::string Opset(const std::string& domain, std::int64_t version) {
  return Text(tag::kOpsetDomain, domain) + Integer(tag::kOpsetVersion, version);
}

/// Returns a model. Its opset import comes last, so that every prefix of it lacks something.
inline std::string Model(const std::string& graph, std::int64_t opset = 21,
                         std::int64_t ir_version = 10) {
  return Integer(tag::kIrVersion, ir_version) + Text(tag::kGraph, graph) +
         Text(tag::kOpsetImport, Opset("", opset));
}

inline std::string Function(const std::string& name, const std::string& node,
                            std::int64_t opset = 21) {
  return Text(tag::kFunctions, (name.empty() ? "" : Text(tag::kFunctionName, name)) +
                                   Text(tag::kFunctionNode, node) +
                                   Text(tag::kFunctionOpsetImport, Opset("", opset)));
}

/// Returns the messages or strings in `message` under `tag`.
inline Texts All(std::string_view message, std::uint32_t tag) {
  Texts all;
  for (FieldReader reader(message); reader.Next();) {
    if (reader.field().tag() == tag) all.emplace_back(reader.field().Bytes());
  }
  return all;
}

}  // namespace opgraft::model::testing
