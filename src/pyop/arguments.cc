// From AttributeProto to Python values.
#include "pyop/arguments.h"

#include <string>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

using model::Field;
using model::FieldReader;
namespace tag = model::tag;

/// ONNX's strings are bytes; those that are text become str.
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

/// The value of the attribute, invalid where its kind is not known here.
nb::object ReadValue(std::string_view attribute, std::int64_t type) {
  // What is zero or empty may be left out of the bytes.
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
    case tag::kFloat: return nb::float_(number);
    case tag::kInt: return nb::int_(integer);
    case tag::kString: return ToText(text);
    case tag::kFloats: return ToList(floats);
    case tag::kInts: return ToList(integers);
    case tag::kStrings: return texts;
    default: return {};
  }
}

}  // namespace

Status ReadArguments(const Spec& spec, nb::dict* arguments) try {
  for (FieldReader reader(spec.arguments); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const std::string_view attribute = reader.field().Bytes();
    std::string_view name;
    std::int64_t type = 0;
    for (FieldReader head(attribute); head.Next();) {
      if (head.field().tag() == tag::kAttributeName) name = head.field().Bytes();
      if (head.field().tag() == tag::kAttributeType) type = head.field().Integer();
    }
    const nb::object value = ReadValue(attribute, type);
    if (!value.is_valid()) {
      return Status::Model(spec.Who() + ": attribute '" + std::string(name) +
                           "' is of ONNX's kind " + tag::AttributeTypeName(type) +
                           ", which __init__ cannot be given yet; expected a number, a string, or "
                           "a list of them");
    }
    (*arguments)[ToText(name)] = value;
  }
  return Status();
} catch (const protozero::exception& exception) {
  return Status::Model(spec.Who() + ": attribute 'arguments' is no NodeProto: " + exception.what());
}

}  // namespace opgraft::pyop
