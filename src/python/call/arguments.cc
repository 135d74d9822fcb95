// Converts AttributeProto messages to Python values.
#include "python/call/arguments.h"

#include <string>
#include <utility>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/pyop_node.h"
#include "python/call/tensor_argument.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

using model::Field;
using model::FieldReader;
namespace tag = model::tag;

/// ONNX's strings are bytes; those that are valid UTF-8 become str, the others bytes.
nb::object ToText(std::string_view bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), nullptr);
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? nb::steal(text) : nb::bytes(bytes.data(), bytes.size());
}

template <class Element>
nb::list ToList(const std::vector<Element>& elements) {
  nb::list list;
  for (const Element element : elements) list.append(element);
  return list;
}

/// The class of the package onnx for a message, and whether the attribute is a list of them.
struct Message {
  const char* class_name;
  std::uint32_t tag;
  bool is_list;
};

/// Looks up an AttributeProto.AttributeType; `class_name` is nullptr for kinds that hold no
/// message.
Message FindMessage(std::int64_t type) {
  switch (type) {
    case tag::kGraphAttribute: return {"GraphProto", tag::kAttributeGraph, false};
    case tag::kGraphsAttribute: return {"GraphProto", tag::kAttributeGraphs, true};
    case tag::kSparseTensor: return {"SparseTensorProto", tag::kAttributeSparseTensor, false};
    case tag::kSparseTensors: return {"SparseTensorProto", tag::kAttributeSparseTensors, true};
    case tag::kTypeProto: return {"TypeProto", tag::kAttributeTypeProto, false};
    case tag::kTypeProtos: return {"TypeProto", tag::kAttributeTypeProtos, true};
    default: return {nullptr, 0, false};
  }
}

/// Reads the fields with this tag. If a single message occurs several times, the last one wins.
template <class Reader>
Status ReadParts(std::string_view attribute, std::uint32_t tag, bool is_list, const Reader& read,
                 nb::object* value) {
  nb::list parts;
  for (FieldReader reader(attribute); reader.Next();) {
    if (reader.field().tag() != tag) continue;
    nb::object part;
    Status status = read(reader.field().Bytes(), &part);
    if (!status.ok()) return status;
    parts.append(part);
  }
  if (is_list) {
    *value = std::move(parts);
  } else if (parts.size() > 0) {
    *value = parts[parts.size() - 1];
  } else {
    return Status::Model("it has no value");
  }
  return Status();
}

/// Parses a message into an object of the package onnx.
Status ReadMessage(const Message& message, std::string_view bytes, nb::object* value) {
  try {
    *value = nb::module_::import_("opgraft._base._values")
                 .attr("parse")(message.class_name, nb::bytes(bytes.data(), bytes.size()));
    return Status();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) {
      return Status::Model(std::string("it is not a valid ") + message.class_name + ": " +
                           error.what());
    }
    return Status::Unavailable(std::string("an onnx.") + message.class_name +
                               " needs the Python package onnx. Fix: pip install onnx");
  }
}

/// Reads the value of the attribute. The caller adds the attribute's name to an error.
Status ReadValue(std::string_view attribute, std::int64_t type, nb::object* value) {
  // The bytes may omit a field that is zero or empty.
  float number = 0;
  std::int64_t integer = 0;
  std::string_view text;
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
  nb::list texts;
  for (FieldReader reader(attribute); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kAttributeFloat: number = field.Float(); break;
      case tag::kAttributeInt: integer = field.Integer(); break;
      case tag::kAttributeString: text = field.Bytes(); break;
      case tag::kAttributeFloats: field.AppendTo(&floats); break;
      case tag::kAttributeInts: field.AppendTo(&integers); break;
      case tag::kAttributeStrings: texts.append(ToText(field.Bytes())); break;
      default: break;
    }
  }
  switch (type) {
    case tag::kFloat: *value = nb::float_(number); return Status();
    case tag::kInt: *value = nb::int_(integer); return Status();
    case tag::kString: *value = ToText(text); return Status();
    case tag::kFloats: *value = ToList(floats); return Status();
    case tag::kInts: *value = ToList(integers); return Status();
    case tag::kStrings: *value = std::move(texts); return Status();
    case tag::kTensor: return ReadParts(attribute, tag::kAttributeTensor, false, ReadTensor, value);
    case tag::kTensors:
      return ReadParts(attribute, tag::kAttributeTensors, true, ReadTensor, value);
    default: break;
  }
  const Message message = FindMessage(type);
  if (message.class_name == nullptr) return Status::Model("ONNX has no such kind");
  const auto read = [&](std::string_view bytes, nb::object* part) {
    return ReadMessage(message, bytes, part);
  };
  return ReadParts(attribute, message.tag, message.is_list, read, value);
}

}  // namespace

Status ReadArguments(const Spec& spec, nb::dict* arguments) try {
  for (FieldReader reader(spec.arguments); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const std::string_view attribute = reader.field().Bytes();
    const model::AttributeHead head = model::ReadAttributeHead(attribute);
    nb::object value;
    if (head.is_reference) {  // preparing refuses these before
      return Status::Model(spec.Who() + ": attribute '" + std::string(head.name) +
                           "' refers to an attribute of a function, so it has no value here");
    }
    if (Status status = ReadValue(attribute, head.type, &value); !status.ok()) {
      return Status(status.kind(), spec.Who() + ": attribute '" + std::string(head.name) +
                                       "', of ONNX's kind " + tag::AttributeTypeName(head.type) +
                                       ": " + status.message());
    }
    (*arguments)[ToText(head.name)] = value;
  }
  return Status();
} catch (const protozero::exception& exception) {
  return Status::Model(spec.Who() +
                       ": attribute 'arguments' is not a NodeProto: " + exception.what());
}

}  // namespace opgraft::pyop
