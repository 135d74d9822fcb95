// Reads and writes ValueInfoProto.
#include "model/declared_values.h"

#include <protozero/pbf_writer.hpp>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

pyop::DeclaredShape ReadShape(std::string_view shape) {
  std::vector<std::int64_t> dimensions;
  for (FieldReader reader(shape); reader.Next();) {
    if (reader.field().tag() != tag::kDimension) continue;
    std::int64_t value = pyop::kUnknown;
    for (FieldReader dimension(reader.field().Bytes()); dimension.Next();) {
      if (dimension.field().tag() == tag::kDimensionValue) value = dimension.field().Integer();
    }
    dimensions.push_back(value < 0 ? pyop::kUnknown : value);
  }
  return dimensions;
}

}  // namespace

std::pair<std::string_view, DeclaredValue> ReadValueInfo(std::string_view value_info) {
  std::string_view name;
  DeclaredValue value;
  for (FieldReader reader(value_info); reader.Next();) {
    if (reader.field().tag() == tag::kValueName) name = reader.field().Bytes();
    if (reader.field().tag() != tag::kValueType) continue;
    for (FieldReader type(reader.field().Bytes()); type.Next();) {
      if (type.field().tag() != tag::kTensorType) continue;
      for (FieldReader tensor(type.field().Bytes()); tensor.Next();) {
        const Field& field = tensor.field();
        if (field.tag() == tag::kElementType) value.element_type = field.Integer();
        if (field.tag() == tag::kTensorShape) value.shape = ReadShape(field.Bytes());
      }
    }
  }
  return {name, value};
}

std::pair<std::string_view, DeclaredValue> ReadTensorHead(std::string_view tensor) {
  std::string_view name;
  DeclaredValue value;
  for (FieldReader reader(tensor); reader.Next();) {
    if (reader.field().tag() == tag::kTensorName) name = reader.field().Bytes();
    if (reader.field().tag() == tag::kTensorDataType) value.element_type = reader.field().Integer();
  }
  return {name, value};
}

void DeclaredValues::Read(std::string_view graph) {
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraphValueInfo || field.tag() == tag::kGraphInput ||
        field.tag() == tag::kGraphOutput) {
      Add(ReadValueInfo(field.Bytes()));
    }
    if (field.tag() == tag::kGraphInitializer) Add(ReadTensorHead(field.Bytes()));
  }
}

std::string WriteValueInfo(std::string_view name, const DeclaredValue& value) {
  // Written from the inside out, because a nested writer would omit a message without fields, such
  // as the shape of a scalar.
  std::string tensor;
  protozero::pbf_writer tensor_writer(tensor);
  tensor_writer.add_int32(tag::kElementType, static_cast<std::int32_t>(value.element_type));
  if (value.shape) {
    std::string shape;
    for (const std::int64_t size : *value.shape) {
      std::string dimension;
      if (size != pyop::kUnknown) {
        protozero::pbf_writer(dimension).add_int64(tag::kDimensionValue, size);
      }
      protozero::pbf_writer(shape).add_message(tag::kDimension, dimension);
    }
    tensor_writer.add_message(tag::kTensorShape, shape);
  }
  std::string type;
  protozero::pbf_writer(type).add_message(tag::kTensorType, tensor);
  std::string written;
  protozero::pbf_writer writer(written);
  writer.add_string(tag::kValueName, name.data(), name.size());
  writer.add_message(tag::kValueType, type);
  return written;
}

}  // namespace opgraft::model
