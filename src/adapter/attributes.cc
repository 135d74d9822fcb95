// The two ways in which ONNX Runtime provides attributes.
#include "adapter/attributes.h"

#include <utility>

#include "base/packed_texts.h"

namespace opgraft::ort {
namespace {

// Values of OrtOpAttrType.
constexpr int kOpAttrInteger = 1;
constexpr int kOpAttrIntegers = 2;
constexpr int kOpAttrFloat = 3;
constexpr int kOpAttrFloats = 4;
constexpr int kOpAttrString = 5;

bool Drop(const OrtApi* api, OrtStatus* status) { return FromRuntime(api, status).ok(); }

}  // namespace

bool KernelAttributes::Has(const char* name) const {
  // This fails if there is no such attribute; one of another kind reads as an empty list.
  std::size_t count = 0;
  return Drop(api_, KernelInfoGetAttributeArray_int64(api_, info_, name, nullptr, &count));
}

bool KernelAttributes::Read(const char* name, std::int64_t* integer) const {
  std::int64_t read = 0;
  if (!Drop(api_, KernelInfoGetAttribute_int64(api_, info_, name, &read))) return false;
  *integer = read;
  return true;
}

bool KernelAttributes::Read(const char* name, float* number) const {
  float read = 0;
  if (!Drop(api_, KernelInfoGetAttribute_float(api_, info_, name, &read))) return false;
  *number = read;
  return true;
}

bool KernelAttributes::Read(const char* name, std::string* text) const {
  std::string read;
  const auto get = [&](char* out, std::size_t* size) {
    return KernelInfoGetAttribute_string(api_, info_, name, out, size);
  };
  if (!ReadText(api_, get, &read).ok()) return false;
  *text = std::move(read);
  return true;
}

bool KernelAttributes::Read(const char* name, std::vector<std::int64_t>* integers) const {
  std::size_t count = 0;
  if (!Drop(api_, KernelInfoGetAttributeArray_int64(api_, info_, name, nullptr, &count))) {
    return false;
  }
  integers->resize(count);
  return count == 0 ||
         Drop(api_, KernelInfoGetAttributeArray_int64(api_, info_, name, integers->data(), &count));
}

bool KernelAttributes::Read(const char* name, std::vector<float>* numbers) const {
  std::size_t count = 0;
  if (!Drop(api_, KernelInfoGetAttributeArray_float(api_, info_, name, nullptr, &count))) {
    return false;
  }
  numbers->resize(count);
  return count == 0 ||
         Drop(api_, KernelInfoGetAttributeArray_float(api_, info_, name, numbers->data(), &count));
}

bool KernelAttributes::Read(const char* name, std::vector<std::string>* texts) const {
  std::string packed;
  if (Read(PackedName(name).c_str(), &packed)) {
    return UnpackTexts(packed, texts);
  }
  if (!runtime_.HandsOverTexts()) return false;
  OrtAllocator* allocator = nullptr;
  char** read = nullptr;
  std::size_t count = 0;
  if (!Drop(api_, GetAllocatorWithDefaultOptions(api_, &allocator)) ||
      !Drop(api_,
            KernelInfoGetAttributeArray_string(api_, info_, name, allocator, &read, &count))) {
    return false;
  }
  texts->clear();
  for (std::size_t i = 0; i < count; ++i) {
    texts->emplace_back(read[i]);
    Drop(api_, AllocatorFree(api_, allocator, read[i]));
  }
  if (read != nullptr) Drop(api_, AllocatorFree(api_, allocator, static_cast<void*>(read)));
  return true;
}

bool KernelAttributes::Read(const char* name, OrtValue** tensor) const {
  OrtAllocator* allocator = nullptr;
  return Drop(api_, GetAllocatorWithDefaultOptions(api_, &allocator)) &&
         Drop(api_, KernelInfoGetAttribute_tensor(api_, info_, name, allocator, tensor));
}

Status KernelAttributes::CheckTexts(const std::string& who,
                                    std::initializer_list<const char*> names) const {
  for (const char* const name : names) {
    std::size_t size = 0;
    if (!Has(name) ||
        Drop(api_, KernelInfoGetAttribute_string(api_, info_, name, nullptr, &size))) {
      continue;
    }
    return Status::Model(who + ": attribute '" + name + "' is not of ONNX's kind STRING");
  }
  return Status();
}

Status KernelAttributes::CheckIntegers(const std::string& who,
                                       std::initializer_list<const char*> names) const {
  for (const char* const name : names) {
    std::vector<std::int64_t> integers;  // an attribute of another kind reads as an empty list
    if (!Has(name) || (Read(name, &integers) && !integers.empty())) continue;
    return Status::Model(who + ": attribute '" + name +
                         "' is not of ONNX's kind INTS, or is empty");
  }
  return Status();
}

bool InferenceAttributes::Has(const char* name) const {
  const OrtOpAttr* attribute = nullptr;
  return Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute)) &&
         attribute != nullptr;
}

template <class T>
bool InferenceAttributes::ReadOne(const char* name, int type, T* value) const {
  const OrtOpAttr* attribute = nullptr;
  if (!Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute))) return false;
  T read = 0;
  std::size_t size = 0;
  if (!Drop(api_, ReadOpAttr(api_, attribute, type, &read, sizeof(read), &size))) return false;
  *value = read;
  return true;
}

template <class T>
bool InferenceAttributes::ReadList(const char* name, int type, std::vector<T>* values) const {
  const OrtOpAttr* attribute = nullptr;
  if (!Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute))) return false;
  std::size_t size = 0;  // in bytes
  Drop(api_, ReadOpAttr(api_, attribute, type, nullptr, 0, &size));
  std::vector<T> read(size / sizeof(T));
  if (!Drop(api_, ReadOpAttr(api_, attribute, type, read.data(), size, &size))) return false;
  *values = std::move(read);
  return true;
}

bool InferenceAttributes::Read(const char* name, std::int64_t* integer) const {
  return ReadOne(name, kOpAttrInteger, integer);
}

bool InferenceAttributes::Read(const char* name, float* number) const {
  float read = 0;
  std::int64_t integer = 0;
  if (!ReadOne(name, kOpAttrFloat, &read)) return false;
  // An INT attribute reads as 0 here, because the runtime does not check the kind.
  if (read == 0 && Read(name, &integer) && integer != 0) return false;
  *number = read;
  return true;
}

bool InferenceAttributes::Read(const char* name, std::string* text) const {
  const OrtOpAttr* attribute = nullptr;
  if (!Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute))) return false;
  std::size_t size = 0;
  Drop(api_, ReadOpAttr(api_, attribute, kOpAttrString, nullptr, 0, &size));
  std::string read(size, '\0');
  if (!Drop(api_, ReadOpAttr(api_, attribute, kOpAttrString, read.data(), read.size(), &size))) {
    return false;
  }
  if (runtime_.TerminatesTexts() && !read.empty()) read.pop_back();
  *text = std::move(read);
  return true;
}

bool InferenceAttributes::Read(const char* name, std::vector<std::int64_t>* integers) const {
  return ReadList(name, kOpAttrIntegers, integers);
}

bool InferenceAttributes::Read(const char* name, std::vector<float>* numbers) const {
  return ReadList(name, kOpAttrFloats, numbers);
}

bool InferenceAttributes::Read(const char*, std::vector<std::string>*) const { return false; }

bool InferenceAttributes::Read(const char*, OrtValue**) const { return false; }

}  // namespace opgraft::ort
