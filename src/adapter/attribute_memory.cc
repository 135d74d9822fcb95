// Asks the runtime for one kind after another, since it does not say which kind an attribute has.
#include "adapter/attribute_memory.h"

#include <utility>

#include "adapter/calls.h"
#include "adapter/tensors.h"

namespace opgraft::ort {
namespace {

// Kinds of AttributeProto.AttributeType.
enum Kind : int {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kFloats = 6,
  kInts = 7,
  kStrings = 8
};

const char* KindName(int kind) {
  switch (kind) {
    case kFloat: return "FLOAT";
    case kInt: return "INT";
    case kString: return "STRING";
    case kTensor: return "TENSOR";
    case kFloats: return "FLOATS";
    case kInts: return "INTS";
    case kStrings: return "STRINGS";
    default: return "of a kind that no operator of a pack has";
  }
}

/// Returns the kind of an attribute, as far as the runtime can tell; 0 if it cannot.
int FindKind(const Runtime& runtime, const Attributes& attributes, const char* name) {
  std::int64_t integer = 0;
  float number = 0;
  std::string text;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;
  std::vector<std::string> texts;
  if (attributes.Read(name, &integer)) return kInt;
  if (attributes.Read(name, &number)) return kFloat;
  if (attributes.Read(name, &text)) return kString;
  if (attributes.Read(name, &integers) && !integers.empty()) return kInts;
  if (attributes.Read(name, &numbers) && !numbers.empty()) return kFloats;
  if (attributes.Read(name, &texts) && !texts.empty()) return kStrings;
  OrtValue* value = nullptr;
  if (!attributes.Read(name, &value)) return 0;
  ReleaseValue(runtime.api, value);
  return kTensor;
}

}  // namespace

AttributeMemory::~AttributeMemory() {
  if (value_ != nullptr) ReleaseValue(runtime_.api, value_);
}

Status AttributeMemory::Read(const Attributes& attributes, const char* name, int kind,
                             OpgraftAttribute* read) {
  *read = {};
  bool is_there = false;
  bool may_be_another = false;
  switch (kind) {
    case kInt: is_there = attributes.Read(name, &integer_); break;
    case kFloat:
      is_there = attributes.Read(name, &number_);
      if (!is_there && attributes.Read(name, &integer_)) {
        number_ = static_cast<float>(integer_);
        is_there = true;
      }
      break;
    case kString: is_there = attributes.Read(name, &text_); break;
    case kTensor: is_there = attributes.Read(name, &value_); break;
    case kInts:
      is_there = attributes.Read(name, &integers_);
      may_be_another = integers_.empty();
      break;
    case kFloats:
      is_there = attributes.Read(name, &numbers_);
      if (numbers_.empty() && attributes.Read(name, &integers_)) {
        numbers_.assign(integers_.begin(), integers_.end());
        is_there = true;
      }
      may_be_another = numbers_.empty();
      break;
    case kStrings:
      is_there = attributes.Read(name, &strings_);
      may_be_another = strings_.empty();
      break;
    default: return Status::Error("a pack asks for an attribute of an unknown kind");
  }
  if (is_there ? may_be_another : attributes.Has(name)) {
    const int found = FindKind(runtime_, attributes, name);
    if (found == 0 && kind == kStrings && !runtime_.HandsOverTexts()) {
      return Status::Unavailable(
          "attribute '" + std::string(name) +
          "' is a list of strings, which ONNX Runtime before 1.25 does not pass to a custom "
          "operator. Fix: open the model with Opgraft, or use ONNX Runtime 1.25 or newer");
    }
    if (found != kind && (found != 0 || !is_there)) {
      return Status::Model("attribute '" + std::string(name) + "' is " + KindName(found) +
                           ", expected " + KindName(kind));
    }
  }
  if (!is_there) return Status();
  *read = {kind, 1, &number_, &integer_, nullptr, nullptr};
  switch (kind) {
    case kInts:
      read->integers = integers_.data();
      read->count = integers_.size();
      break;
    case kFloats:
      read->floats = numbers_.data();
      read->count = numbers_.size();
      break;
    case kString: strings_ = {text_}; [[fallthrough]];
    case kStrings:
      for (const std::string& text : strings_) texts_.push_back({text.data(), text.size()});
      read->texts = texts_.data();
      read->count = texts_.size();
      break;
    case kTensor: return ReadTensorValue(read);
    default: break;
  }
  return Status();
}

Status AttributeMemory::ReadTensorValue(OpgraftAttribute* read) {
  Status status = ToContract(runtime_, value_, &memory_, &storage_, &texts_, &tensor_);
  read->tensors = &tensor_;
  return status;
}

}  // namespace opgraft::ort
