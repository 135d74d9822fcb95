// Writes the fields of ONNX's messages by their numbers in onnx.proto.
#include "model_writer.h"

#include <cstring>
#include <string_view>
#include <variant>

namespace opgraft::op_test {
namespace {

constexpr int kIrVersion = 8;
/// The opset of the standard operators around the operator under test.
constexpr int kStandardVersion = 16;

/// A protobuf message.
class Message {
 public:
  Message& Integer(int field, std::int64_t value) {
    Varint(static_cast<std::uint64_t>(field) << 3U);
    Varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& Float(int field, float value) {
    Varint(static_cast<std::uint64_t>(field) << 3U | 5U);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
    return *this;
  }
  Message& Bytes(int field, std::string_view bytes) {
    Varint(static_cast<std::uint64_t>(field) << 3U | 2U);
    Varint(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  Message& Inner(int field, const Message& message) { return Bytes(field, message.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(std::uint64_t value) {
    for (; value > 127; value >>= 7U) bytes_ += static_cast<char>((value & 127U) | 128U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

Message WriteTensor(const std::string& name, const TensorValue& value) {
  Message tensor;
  for (const std::int64_t size : value.shape()) tensor.Integer(1, size);
  tensor.Integer(2, value.element_type());
  for (const std::string& text : value.strings()) tensor.Bytes(6, text);
  tensor.Bytes(8, name);
  if (value.element_type() != kElementType<std::string>) {
    const auto* const bytes = reinterpret_cast<const char*>(value.bytes().data());
    tensor.Bytes(9, {bytes, value.bytes().size()});
  }
  return tensor;
}

Message WriteValueInfo(const std::string& name, std::int32_t element_type,
                       const OpTester::Shape& shape) {
  Message value;
  value.Bytes(1, name);
  if (element_type == 0) return value;
  Message tensor;
  tensor.Integer(1, element_type);
  if (shape) {
    Message dimensions;
    for (const OpTester::Dimension& one : *shape) {
      Message dimension;
      if (one.size >= 0) {
        dimension.Integer(1, one.size);
      } else if (!one.symbol.empty()) {
        dimension.Bytes(2, one.symbol);
      }
      dimensions.Inner(1, dimension);
    }
    tensor.Inner(2, dimensions);
  }
  return value.Inner(2, Message().Inner(1, tensor));
}

Message WriteAttribute(const OpTester::Attribute& attribute) {
  Message written;
  written.Bytes(1, attribute.name);
  std::visit(
      [&]<class A>(const A& value) {
        if constexpr (std::is_same_v<A, float>) {
          written.Float(2, value);
        } else if constexpr (std::is_same_v<A, std::int64_t>) {
          written.Integer(3, value);
        } else if constexpr (std::is_same_v<A, std::string>) {
          written.Bytes(4, value);
        } else if constexpr (std::is_same_v<A, TensorValue>) {
          written.Inner(5, WriteTensor("", value));
        } else if constexpr (std::is_same_v<A, std::vector<float>>) {
          for (const float one : value) written.Float(7, one);
        } else if constexpr (std::is_same_v<A, std::vector<std::int64_t>>) {
          for (const std::int64_t one : value) written.Integer(8, one);
        } else if constexpr (std::is_same_v<A, std::vector<std::string>>) {
          for (const std::string& one : value) written.Bytes(9, one);
        }
        written.Integer(20, kAttributeKind<A>);
      },
      attribute.value);
  return written;
}

Message WriteNode(const std::string& operator_name, const std::string& domain,
                  const std::vector<std::string>& in, const std::vector<std::string>& out) {
  Message node;
  for (const std::string& one : in) node.Bytes(1, one);
  for (const std::string& one : out) node.Bytes(2, one);
  // The names of nodes must differ; the other nodes have different outputs.
  const std::string name = domain.empty() ? operator_name + "/" + out[0] : operator_name;
  return node.Bytes(3, name).Bytes(4, operator_name).Bytes(7, domain);
}

Message WriteImport(const std::string& domain, int version) {
  return Message().Bytes(1, domain).Integer(2, version);
}

}  // namespace

std::string WriteModel(const ModelPlan& plan) {
  Message graph;
  const auto inside = [&](const std::string& name) {
    return plan.is_between && !name.empty() ? name + "/inside" : name;
  };
  std::vector<std::string> inputs;
  for (const ModelValue& value : plan.inputs) {
    const bool is_passed = value.initializer == nullptr;
    inputs.push_back(is_passed ? inside(value.name) : value.name);
    if (plan.is_between && is_passed && !value.name.empty()) {
      // A Cast to the same type: unlike Identity, it produces memory that nothing else uses.
      Message cast = WriteNode("Cast", "", {value.name}, {inside(value.name)});
      cast.Inner(5, WriteAttribute({"to", std::int64_t{value.element_type}}));
      graph.Inner(1, cast);
    }
  }
  std::vector<std::string> outputs;
  for (const ModelValue& value : plan.outputs) outputs.push_back(inside(value.name));
  Message node = WriteNode(plan.operator_name, plan.domain, inputs, outputs);
  for (const OpTester::Attribute& attribute : plan.attributes)
    node.Inner(5, WriteAttribute(attribute));
  graph.Inner(1, node);
  graph.Bytes(2, "case");
  for (const ModelValue& value : plan.inputs) {
    if (value.name.empty()) continue;
    if (value.initializer != nullptr) {
      graph.Inner(5, WriteTensor(value.name, *value.initializer));
    } else {
      graph.Inner(11, WriteValueInfo(value.name, value.element_type, value.shape));
    }
  }
  for (const ModelValue& value : plan.outputs) {
    if (value.name.empty()) continue;
    const std::int32_t type = plan.are_outputs_typed ? value.element_type : 0;
    graph.Inner(12, WriteValueInfo(value.name, type, std::nullopt));
    if (plan.is_between) {
      graph.Inner(1, WriteNode("Identity", "", {inside(value.name)}, {value.name}));
      if (type != 0) graph.Inner(13, WriteValueInfo(inside(value.name), type, std::nullopt));
    }
    if (plan.asks_shapes) {
      graph.Inner(1, WriteNode("Shape", "", {value.name}, {ShapeName(value.name)}));
      graph.Inner(12,
                  WriteValueInfo(ShapeName(value.name), kElementType<std::int64_t>, std::nullopt));
    }
  }
  Message model;
  model.Integer(1, kIrVersion);
  model.Inner(7, graph);
  model.Inner(8, WriteImport(plan.domain, plan.version));
  if (!plan.domain.empty()) model.Inner(8, WriteImport("", kStandardVersion));
  return model.bytes();
}

}  // namespace opgraft::op_test
