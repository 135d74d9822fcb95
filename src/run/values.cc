// Strings, and elements smaller than a byte, are stored differently in the runtime and in arrays.
#include "run/values.h"

#include <algorithm>
#include <string_view>

#include "adapter/calls.h"
#include "base/element_type.h"

namespace opgraft::run {
namespace {

Status MakeStrings(const OrtApi* api, const Array& array, OrtValue** value) {
  OrtAllocator* allocator = nullptr;
  OrtStatus* status = ort::GetAllocatorWithDefaultOptions(api, &allocator);
  if (status == nullptr) {
    status = ort::CreateTensorAsOrtValue(api, allocator, array.shape.data(), array.shape.size(),
                                         array.element_type, value);
  }
  for (std::size_t i = 0; status == nullptr && i < array.strings.size(); ++i) {
    char* text = nullptr;
    const std::string& string = array.strings[i];
    status = ort::GetResizedStringTensorElementBuffer(api, *value, i, string.size(), &text);
    if (status == nullptr) string.copy(text, string.size());
  }
  return ort::FromRuntime(api, status);
}

Status ReadStrings(const OrtApi* api, const OrtValue* value, Array* array) {
  std::size_t size = 0;
  Status status = ort::FromRuntime(api, ort::GetStringTensorDataLength(api, value, &size));
  const std::size_t elements = array->Elements();
  if (!status.ok() || elements == 0) return status;
  std::string texts(size, '\0');
  std::vector<std::size_t> starts(elements);
  status = ort::FromRuntime(
      api, ort::GetStringTensorContent(api, value, texts.data(), size, starts.data(), elements));
  for (std::size_t i = 0; status.ok() && i < elements; ++i) {
    const std::size_t end = i + 1 < elements ? starts[i + 1] : size;
    array->strings.push_back(texts.substr(starts[i], end - starts[i]));
  }
  return status;
}

/// Kinds of values in the runtime.
enum Kind { kTensor = 1, kSequence = 2, kMap = 3 };

/// Calls `use` with a part of a sequence or a map, and releases it.
template <class Use>
Status WithPart(const OrtApi* api, const OrtValue* value, std::size_t index, const Use& use) {
  OrtAllocator* allocator = nullptr;
  OrtValue* part = nullptr;
  Status status = ort::FromRuntime(api, ort::GetAllocatorWithDefaultOptions(api, &allocator));
  if (status.ok()) {
    status =
        ort::FromRuntime(api, ort::GetValue(api, value, static_cast<int>(index), allocator, &part));
  }
  if (status.ok()) status = use(part);
  if (part != nullptr) ort::ReleaseValue(api, part);
  return status;
}

Status FormatMap(const OrtApi* api, const OrtValue* value, std::string* text) {
  Array keys;
  Array values;
  const auto read = [api](Array* array) {
    return [api, array](OrtValue* part) { return ReadValue(api, part, array); };
  };
  Status status = WithPart(api, value, 0, read(&keys));
  if (status.ok()) status = WithPart(api, value, 1, read(&values));
  if (!status.ok()) return status;
  *text = "{";
  const std::size_t count = std::min(keys.Elements(), values.Elements());
  for (std::size_t i = 0; i < std::min(count, kMostPrinted); ++i) {
    *text += (i > 0 ? ", " : "") + FormatAt(keys, i) + ": " + FormatAt(values, i);
  }
  *text += count > kMostPrinted ? ", ...}" : "}";
  return Status();
}

/// A part of a sequence, in one line.
Status FormatPart(const OrtApi* api, OrtValue* value, std::string* text) {
  int kind = 0;
  Status status = ort::FromRuntime(api, ort::GetValueType(api, value, &kind));
  if (!status.ok()) return status;
  if (kind == kMap) return FormatMap(api, value, text);
  Array array;
  if (status = ReadValue(api, value, &array); !status.ok()) return status;
  *text = Format(array);
  text->replace(text->find('\n'), 1, ": ");
  *text = "[" + *text + "]";
  return Status();
}

}  // namespace

Status FormatValue(const OrtApi* api, OrtValue* value, std::string* text) {
  int kind = 0;
  std::size_t count = 0;
  Status status = ort::FromRuntime(api, ort::GetValueType(api, value, &kind));
  if (!status.ok()) return status;
  if (kind == kMap) {
    status = FormatMap(api, value, text);
    *text = "map\n" + *text;
    return status;
  }
  if (kind != kSequence) {
    *text = "is neither a tensor, a sequence nor a map, and not shown";
    return Status();
  }
  status = ort::FromRuntime(api, ort::GetValueCount(api, value, &count));
  *text = "sequence (" + std::to_string(count) + ")\n";
  for (std::size_t i = 0; status.ok() && i < std::min(count, kMostPrinted); ++i) {
    status = WithPart(api, value, i, [&](OrtValue* part) {
      std::string part_text;
      Status formatted = FormatPart(api, part, &part_text);
      *text += (i > 0 ? " " : "") + part_text;
      return formatted;
    });
  }
  if (count > kMostPrinted) *text += " ...";
  return status;
}

Status MakeValue(const OrtApi* api, const Array& array, std::string* packed, OrtValue** value) {
  if (array.element_type == kString) return MakeStrings(api, array, value);
  constexpr int kArenaAllocator = 1;
  constexpr int kDefaultMemory = 0;
  OrtMemoryInfo* memory = nullptr;
  Status status = ort::FromRuntime(
      api, ort::CreateCpuMemoryInfo(api, kArenaAllocator, kDefaultMemory, &memory));
  if (!status.ok()) return status;
  const std::string* bytes = &array.data;
  if (const ElementType& type = *FindElementType(array.element_type); type.IsPacked()) {
    packed->resize(type.PackedSize(array.Elements()));
    Pack(type, array.data.data(), array.Elements(), packed->data());
    bytes = packed;
  }
  status =
      ort::FromRuntime(api, ort::CreateTensorWithDataAsOrtValue(
                                api, memory, const_cast<char*>(bytes->data()), bytes->size(),
                                array.shape.data(), array.shape.size(), array.element_type, value));
  ort::ReleaseMemoryInfo(api, memory);
  return status;
}

Status ReadValue(const OrtApi* api, OrtValue* value, Array* array) {
  const auto take = [&](OrtStatus* status) { return ort::FromRuntime(api, status); };
  OrtTensorTypeAndShapeInfo* info = nullptr;
  int element_type = 0;
  std::size_t rank = 0;
  void* data = nullptr;
  Status status = take(ort::GetTensorTypeAndShape(api, value, &info));
  if (!status.ok()) return status;
  status = take(ort::GetTensorElementType(api, info, &element_type));
  if (status.ok()) status = take(ort::GetDimensionsCount(api, info, &rank));
  array->shape.resize(rank);
  if (status.ok()) status = take(ort::GetDimensions(api, info, array->shape.data(), rank));
  ort::ReleaseTensorTypeAndShapeInfo(api, info);
  if (!status.ok()) return status;
  array->element_type = element_type;
  const ElementType* type = FindElementType(element_type);
  if (type == nullptr || !type->is_carried) {
    return Status::Unavailable("an output is " + ElementTypeName(element_type) +
                               ", which opgraft-run cannot print");
  }
  if (element_type == kString) return ReadStrings(api, value, array);
  status = take(ort::GetTensorMutableData(api, value, &data));
  const std::size_t elements = array->Elements();
  if (!status.ok() || elements == 0) return status;
  if (type->IsPacked()) {
    array->data.resize(elements);
    Unpack(*type, data, elements, array->data.data());
  } else {
    array->data.assign(static_cast<const char*>(data), elements * type->size);
  }
  return Status();
}

Status AdoptType(const OrtApi* api, const OrtSession* session, std::size_t index, Array* array) {
  OrtTypeInfo* info = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  int element_type = 0;
  OrtStatus* status = ort::SessionGetInputTypeInfo(api, session, index, &info);
  if (status == nullptr) status = ort::CastTypeInfoToTensorInfo(api, info, &tensor);
  if (status == nullptr && tensor != nullptr) {
    status = ort::GetTensorElementType(api, tensor, &element_type);
  }
  if (info != nullptr) ort::ReleaseTypeInfo(api, info);
  if (status != nullptr) return ort::FromRuntime(api, status);
  if (array->element_type != 0) {
    if (element_type == 0 || element_type == array->element_type) return Status();
    const std::string expected = ElementTypeName(element_type);
    const bool is_convertible = element_type != kString && array->element_type != kString;
    return Status::Error("it is " + ElementTypeName(array->element_type) +
                         ", but the model takes " + expected +
                         (is_convertible && !IsUntypedInNpy(element_type)
                              ? ". Fix: save array.astype(\"" + expected + "\")"
                              : ""));
  }
  const ElementType* const type = FindElementType(element_type);
  if (type == nullptr || !type->is_carried || !IsUntypedInNpy(element_type) ||
      type->size != array->untyped_size) {
    return Status::Error("its elements are " + std::to_string(array->untyped_size) +
                         " untyped bytes, but the model takes " + ElementTypeName(element_type));
  }
  array->element_type = element_type;
  return Status();
}

}  // namespace opgraft::run
