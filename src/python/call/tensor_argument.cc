// Gathers a tensor's elements from the field that holds them: raw data, or a field of their type.
#include "python/call/tensor_argument.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/element_type.h"
#include "base/text.h"
#include "model/fields.h"
#include "model/onnx_tags.h"
#include "python/call/arrays.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

using model::Field;
using model::FieldReader;
namespace tag = model::tag;

struct Tensor {
  std::int64_t type = 0;
  std::vector<std::int64_t> shape;
  std::string_view raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;  // from any of the integer fields
  std::vector<std::string_view> strings;
  bool is_external = false;
};

Tensor Parse(std::string_view bytes) {
  Tensor tensor;
  for (FieldReader reader(bytes); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kTensorDimensions: field.AppendTo(&tensor.shape); break;
      case tag::kTensorDataType: tensor.type = field.Integer(); break;
      case tag::kTensorFloats: field.AppendTo(&tensor.floats); break;
      case tag::kTensorInt32s:
      case tag::kTensorInt64s:
      case tag::kTensorUint64s: field.AppendTo(&tensor.integers); break;
      case tag::kTensorStrings: tensor.strings.push_back(field.Bytes()); break;
      case tag::kTensorRaw: tensor.raw = field.Bytes(); break;
      case tag::kTensorDoubles: field.AppendTo(&tensor.doubles); break;
      case tag::kTensorDataLocation: tensor.is_external = field.Integer() == tag::kExternal; break;
      default: break;
    }
  }
  return tensor;
}

template <class Element>
std::string BytesOf(const std::vector<Element>& elements) {
  if (elements.empty()) return {};
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element)};
}

/// Returns the elements of a tensor that does not hold strings, in the layout of ONNX's raw data.
std::string GatherBytes(const Tensor& tensor, const ElementType& type) {
  if (!tensor.raw.empty()) return std::string(tensor.raw);
  constexpr std::int64_t kFloat32 = 1, kFloat64 = 11, kComplex64 = 14, kComplex128 = 15;
  if (tensor.type == kFloat32 || tensor.type == kComplex64) return BytesOf(tensor.floats);
  if (tensor.type == kFloat64 || tensor.type == kComplex128) return BytesOf(tensor.doubles);
  // An integer holds the bits of one element, or one byte of packed elements.
  std::string bytes;
  bytes.reserve(tensor.integers.size() * type.size);
  for (const std::int64_t integer : tensor.integers) {
    bytes.append(reinterpret_cast<const char*>(&integer), type.size);
  }
  constexpr int kAcrossBytes = 6;  // elements of 6 bits cross bytes; each has its own integer
  if (type.bits != kAcrossBytes) return bytes;
  std::string packed(type.PackedSize(bytes.size()), '\0');
  opgraft::Pack(type, bytes.data(), bytes.size(), packed.data());
  return packed;
}

}  // namespace

Status ReadTensor(std::string_view tensor_bytes, nb::object* array) {
  const Tensor tensor = Parse(tensor_bytes);
  if (tensor.is_external) {
    return Status::Model(
        "its elements are stored outside the model, but a Python operator's attributes must be in "
        "it. Fix: save the model with that tensor inside, or make it an input of the node");
  }
  const ElementType* const type = FindElementType(tensor.type);
  if (type == nullptr || tensor.type == 0) {
    return Status::Model("its elements are of " + ElementTypeName(tensor.type) +
                         ", which is not an ONNX type");
  }
  if (Status status = FindArrays(tensor.type); !status.ok()) return status;
  std::size_t expected = 1;
  for (const std::int64_t length : tensor.shape) {
    std::size_t largest = 0;
    if (length < 0 ||
        __builtin_mul_overflow(expected, static_cast<std::size_t>(length), &expected) ||
        __builtin_mul_overflow(expected, std::size_t{16}, &largest)) {
      return Status::Model("its shape (" + DimensionsText(tensor.shape) +
                           ") is invalid or too large");
    }
  }
  PyObject* made = nullptr;
  if (tensor.type == kString) {
    if (tensor.strings.size() != expected) {
      return Status::Model("it holds " + std::to_string(tensor.strings.size()) +
                           " strings, expected " + std::to_string(expected));
    }
    made = MakeStrings(tensor.shape, tensor.strings);
  } else {
    std::string bytes = GatherBytes(tensor, *type);
    if (bytes.size() != type->PackedSize(expected)) {
      return Status::Model("it holds " + std::to_string(bytes.size()) +
                           " bytes of elements, expected " +
                           std::to_string(type->PackedSize(expected)) + " for " +
                           std::string(type->name) + " (" + DimensionsText(tensor.shape) + ")");
    }
    made = MakeCopy({bytes.data(), tensor.type, tensor.shape});
  }
  if (made == nullptr) throw nb::python_error();
  *array = nb::steal(made);
  return Status();
}

}  // namespace opgraft::pyop
