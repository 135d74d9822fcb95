// Hides that older runtimes need more calls to read a tensor.
#include "adapter/tensors.h"

#include "adapter/calls.h"

namespace opgraft::ort {
namespace {

/// Does what GetTensorElementTypeAndShapeDataReference does, for runtimes that lack it.
OrtStatus* CopyShape(const OrtApi* api, const OrtValue* value, std::pmr::memory_resource* memory,
                     int* element_type, const std::int64_t** shape, std::size_t* rank) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  OrtStatus* status = GetTensorTypeAndShape(api, value, &info);
  if (status != nullptr) return status;
  status = GetTensorElementType(api, info, element_type);
  if (status == nullptr) status = GetDimensionsCount(api, info, rank);
  if (status == nullptr) {
    auto* copy = static_cast<std::int64_t*>(memory->allocate(*rank * sizeof(std::int64_t)));
    status = GetDimensions(api, info, copy, *rank);
    *shape = copy;
  }
  ReleaseTensorTypeAndShapeInfo(api, info);
  return status;
}

std::vector<OpgraftText> ToTexts(const std::vector<std::string_view>& views) {
  std::vector<OpgraftText> texts;
  texts.reserve(views.size());
  for (const std::string_view view : views) texts.push_back({view.data(), view.size()});
  return texts;
}

}  // namespace

OrtStatus* GetTensorParts(const Runtime& runtime, const OrtValue* value,
                          std::pmr::memory_resource* memory, TensorParts* parts) {
  const OrtApi* const api = runtime.api;
  const std::int64_t* shape = nullptr;
  std::size_t rank = 0;
  OrtStatus* status = runtime.LendsShapes()
                          ? GetTensorElementTypeAndShapeDataReference(
                                api, value, &parts->element_type, &shape, &rank)
                          : CopyShape(api, value, memory, &parts->element_type, &shape, &rank);
  if (status == nullptr) {
    status = GetTensorMutableData(api, const_cast<OrtValue*>(value), &parts->data);
  }
  parts->shape = {shape, rank};
  static char nothing = 0;  // an empty tensor may have no memory, but is not absent
  if (parts->data == nullptr && Elements(parts->shape) == 0) parts->data = &nothing;
  return status;
}

Status ReadTensor(const Runtime& runtime, const OrtValue* value, std::pmr::memory_resource* memory,
                  TensorParts* parts) {
  return FromRuntime(runtime.api, GetTensorParts(runtime, value, memory, parts));
}

Status ReadTexts(const OrtApi* api, const OrtValue* value, std::size_t elements,
                 std::string* storage, std::vector<std::string_view>* texts) {
  std::size_t size = 0;
  Status status = FromRuntime(api, GetStringTensorDataLength(api, value, &size));
  if (!status.ok() || elements == 0) return status;
  storage->resize(size);
  std::vector<std::size_t> starts(elements);
  status = FromRuntime(
      api, GetStringTensorContent(api, value, storage->data(), size, starts.data(), elements));
  if (!status.ok()) return status;
  texts->reserve(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t end = i + 1 < elements ? starts[i + 1] : size;
    texts->push_back(std::string_view(*storage).substr(starts[i], end - starts[i]));
  }
  return Status();
}

OrtStatus* StoreText(const OrtApi* api, OrtValue* value, std::size_t index, std::string_view text) {
  char* memory = nullptr;
  OrtStatus* const status =
      GetResizedStringTensorElementBuffer(api, value, index, text.size(), &memory);
  if (status == nullptr) text.copy(memory, text.size());
  return status;
}

std::size_t Elements(std::span<const std::int64_t> shape) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

Status ToContract(const Runtime& runtime, const OrtValue* value, std::pmr::memory_resource* memory,
                  std::string* storage, std::vector<OpgraftText>* texts, OpgraftTensor* tensor) {
  TensorParts parts;
  Status status = ReadTensor(runtime, value, memory, &parts);
  if (!status.ok()) return status;
  if (parts.element_type == kTextType) {
    std::vector<std::string_view> views;
    status = ReadTexts(runtime.api, value, Elements(parts.shape), storage, &views);
    if (!status.ok()) return status;
    *texts = ToTexts(views);
    parts.data = texts->data();
  }
  *tensor = {parts.data, parts.shape.data(), parts.shape.size(), parts.element_type};
  return Status();
}

Status ReadValue(const OrtApi* api, OrtStatus* got, OrtTypeInfo* type_info, const std::string& who,
                 GraphValue* value) {
  if (!FromRuntime(api, got).ok() || type_info == nullptr) return Status();
  const OrtTensorTypeAndShapeInfo* info = nullptr;
  Status status = FromRuntime(api, CastTypeInfoToTensorInfo(api, type_info, &info));
  if (status.ok() && info == nullptr) status = Status::Model(who + " is not a tensor");
  std::size_t rank = 0;
  if (status.ok()) status = FromRuntime(api, GetTensorElementType(api, info, &value->element_type));
  if (status.ok()) status = FromRuntime(api, GetDimensionsCount(api, info, &rank));
  if (status.ok()) {
    value->sizes.resize(rank);
    status = FromRuntime(api, GetDimensions(api, info, value->sizes.data(), rank));
  }
  ReleaseTypeInfo(api, type_info);
  return status;
}

}  // namespace opgraft::ort
