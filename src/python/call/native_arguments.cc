// Converts attributes of each kind, and holds the memory that the results point to.
#include "python/call/native_arguments.h"

#include <nanobind/stl/string.h>

#include <span>
#include <string_view>

#include "base/element_type.h"
#include "model/onnx_tags.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

namespace tag = model::tag;

constexpr std::int32_t kLastType = 23;

std::string ToString(const nb::handle& value) {
  if (nb::isinstance<nb::bytes>(value)) {
    const auto bytes = nb::cast<nb::bytes>(value);
    return {bytes.c_str(), bytes.size()};
  }
  return nb::cast<std::string>(value);
}

}  // namespace

Status ArrayTensor::Take(const nb::object& value, const std::string& what) {
  if (!array_.Take(value.ptr())) {
    return Status::Error(what + " is " + Describe(value.ptr()) + ", expected an array");
  }
  const auto find = [&](const auto& has_arrays) {
    std::int32_t number = 1;
    while (number <= kLastType && !(has_arrays(number) && array_.HasType(number))) ++number;
    return number <= kLastType ? number : 0;
  };
  std::int32_t type = find(&HasArrays);
  // It may be a type of ml_dtypes, which has not been imported yet.
  if (type == 0) type = find([](std::int32_t number) { return FindArrays(number).ok(); });
  if (type == 0) {
    return Status::Error(what + " is " + Describe(value.ptr()) + ", whose type ONNX lacks");
  }
  shape_.assign(array_.shape().begin(), array_.shape().end());
  tensor_ = {nullptr, shape_.data(), shape_.size(), type};
  return type == kString ? TakeTexts(what) : TakeElements();
}

Status ArrayTensor::TakeTexts(const std::string& what) {
  std::vector<std::string_view> strings;
  std::string problem;
  if (!array_.ReadStrings(&owners_, &strings, &problem)) {
    return Status::Error(what + ": " + problem);
  }
  for (const std::string_view text : strings) texts_.push_back({text.data(), text.size()});
  texts_.push_back({});  // so that data() is not nullptr for an empty array
  tensor_.data = texts_.data();
  return Status();
}

Status ArrayTensor::TakeElements() {
  const ElementType& type = *FindElementType(tensor_.element_type);
  std::size_t elements = 1;
  for (const std::int64_t size : shape_) elements *= static_cast<std::size_t>(size);
  const std::span<const std::byte> block = array_.block();
  if (!block.empty() && !type.IsPacked()) {
    tensor_.data = const_cast<std::byte*>(block.data());
    return Status();
  }
  copy_.resize(type.PackedSize(elements) + 1);
  if (elements > 0 && !array_.CopyTo(tensor_.element_type, copy_.data())) throw nb::python_error();
  tensor_.data = copy_.data();
  return Status();
}

Status NativeArguments::Read(const Schema& schema, const nb::dict& given) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const AttributeParameter* known = nullptr;
    for (const AttributeParameter& one : schema.attributes) {
      if (one.name == name) known = &one;
    }
    if (known == nullptr) {
      return Status::Model(schema.FullName() + " has no attribute '" + name + "'");
    }
    Status status = Add(name, static_cast<int>(known->type), nb::borrow(value));
    if (!status.ok()) return Status(status.kind(), schema.FullName() + ": " + status.message());
  }
  return Status();
}

Status NativeArguments::Add(const std::string& name, int kind, const nb::object& value) {
  Memory& memory = memories_.emplace_back();
  OpgraftAttribute attribute = {};
  attribute.kind = kind;
  attribute.count = 1;
  try {
    switch (kind) {
      case tag::kFloat: memory.floats = {nb::cast<float>(value)}; break;
      case tag::kInt: memory.integers = {nb::cast<std::int64_t>(value)}; break;
      case tag::kString: memory.strings = {ToString(value)}; break;
      case tag::kFloats:
        for (const nb::handle one : value) memory.floats.push_back(nb::cast<float>(one));
        attribute.count = memory.floats.size();
        break;
      case tag::kInts:
        for (const nb::handle one : value) {
          memory.integers.push_back(nb::cast<std::int64_t>(one));
        }
        attribute.count = memory.integers.size();
        break;
      case tag::kStrings:
        for (const nb::handle one : value) memory.strings.push_back(ToString(one));
        attribute.count = memory.strings.size();
        break;
      case tag::kTensor: {
        Status status = memory.tensor.Take(value, "attribute '" + name + "'");
        if (!status.ok()) return status;
        attribute.tensors = &memory.tensor.tensor();
        break;
      }
      default: return Status::Error("attribute '" + name + "' is of an unknown kind");
    }
  } catch (const nb::cast_error&) {
    return Status::Model("attribute '" + name + "' is " + Describe(value.ptr()) +
                         ", which is not of the declared kind");
  }
  for (const std::string& text : memory.strings) {
    memory.texts.push_back({text.data(), text.size()});
  }
  attribute.floats = memory.floats.data();
  attribute.integers = memory.integers.data();
  attribute.texts = memory.texts.data();
  attributes_[name] = attribute;
  return Status();
}

}  // namespace opgraft::pyop
