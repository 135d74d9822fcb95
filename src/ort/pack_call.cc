// Each function answers a pack by calls of the runtime.
#include "ort/pack_call.h"

#include <cstdint>
#include <utility>

#include "ort/calls.h"
#include "ort/shapes.h"
#include "ort/tensors.h"

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
constexpr int kTextType = 8;

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

/// The kind that an attribute has, as far as the runtime can tell; 0 where it has none.
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

Status ToStatus(const OpgraftError& error) {
  const bool is_known = error.kind >= static_cast<int>(ErrorKind::kError) &&
                        error.kind <= static_cast<int>(ErrorKind::kUnavailable);
  return {is_known ? static_cast<ErrorKind>(error.kind) : ErrorKind::kError,
          std::string(error.text.data, error.text.size)};
}

std::vector<OpgraftText> ToTexts(const std::vector<std::string_view>& views) {
  std::vector<OpgraftText> texts;
  texts.reserve(views.size());
  for (const std::string_view view : views) texts.push_back({view.data(), view.size()});
  return texts;
}

std::size_t Elements(std::span<const std::int64_t> shape) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

/// A tensor as the contract has it; that of strings gets its texts in memory of the caller's.
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

}  // namespace

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

/// What the thread sanitizer cannot see, for the runtime is not built with it: that its threads
/// begin a loop after we call for it, and that we go on after they are done. What they do to each
/// other in between stays in sight.
struct WatchedLoop {
  void (*body)(void*, std::size_t);
  void* argument;
  char begin = 0;
  char end = 0;

  static void Run(void* self, std::size_t index) {
    auto& loop = *static_cast<WatchedLoop*>(self);
    __tsan_acquire(&loop.begin);
    loop.body(loop.argument, index);
    __tsan_release(&loop.end);
  }
};
#endif

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
          "' is a list of strings, which ONNX Runtime before 1.25 does not hand to a custom "
          "operator. Open the model by Opgraft, or take a newer runtime");
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

const OpgraftNodeTable PackNode::kTable = {&Fail,      &Name,      &InputCount, &OutputCount,
                                           &InputType, &Attribute, &Constant};

PackNode::PackNode(const Runtime& runtime, const OrtKernelInfo* info)
    : OpgraftNode{&kTable}, runtime_(runtime), info_(info), attributes_(runtime, info) {}

Status PackNode::Read() {
  const OrtApi* const api = runtime_.api;
  const auto get_name = [&](char* out, std::size_t* size) {
    return KernelInfo_GetNodeName(api, info_, out, size);
  };
  Status status = ReadText(api, get_name, &name_);
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetInputCount(api, info_, &inputs_));
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetOutputCount(api, info_, &outputs_));
  return status;
}

void PackNode::Fail(OpgraftNode* self, const OpgraftError* error) {
  Self(self).status_ = ToStatus(*error);
}

OpgraftText PackNode::Name(OpgraftNode* self) {
  return {Self(self).name_.data(), Self(self).name_.size()};
}

int PackNode::InputType(OpgraftNode* self, std::size_t index, std::int32_t* type) {
  PackNode& node = Self(self);
  const OrtApi* const api = node.runtime_.api;
  OrtTypeInfo* type_info = nullptr;
  OrtStatus* const got = KernelInfo_GetInputTypeInfo(api, node.info_, index, &type_info);
  GraphValue value;
  node.status_ = ReadValue(api, got, type_info, "input " + std::to_string(index), &value);
  *type = value.element_type;
  return node.status_.ok() ? 0 : 1;
}

int PackNode::Attribute(OpgraftNode* self, const char* name, std::int32_t kind,
                        OpgraftAttribute* attribute) {
  PackNode& node = Self(self);
  Status status =
      node.values_.emplace_back(node.runtime_).Read(node.attributes_, name, kind, attribute);
  if (status.ok()) return 0;
  node.status_ = std::move(status);
  return 1;
}

Status PackNode::ReadConstant(std::size_t index, OpgraftTensor* tensor) {
  const OrtApi* const api = runtime_.api;
  int is_constant = 0;
  const OrtValue* value = nullptr;
  Status status =
      FromRuntime(api, KernelInfoGetConstantInput_tensor(api, info_, index, &is_constant, &value));
  if (!status.ok() || is_constant == 0 || value == nullptr) return status;
  return ToContract(runtime_, value, &memory_, &storages_.emplace_back(), &texts_.emplace_back(),
                    tensor);
}

int PackNode::Constant(OpgraftNode* self, std::size_t index, OpgraftTensor* tensor) {
  *tensor = {};
  Self(self).status_ = Self(self).ReadConstant(index, tensor);
  return Self(self).status_.ok() ? 0 : 1;
}

const OpgraftCallTable PackCall::kTable = {&Fail,    &Input,       &Output, &StoreTexts,
                                           &Scratch, &ParallelFor, &Log};

PackCall::PackCall(const Runtime& runtime, OrtKernelContext* context,
                   const std::vector<std::int32_t>& output_types)
    : OpgraftCall{&kTable},
      runtime_(runtime),
      api_(runtime.api),
      context_(context),
      output_types_(output_types) {}

PackCall::~PackCall() {
  for (void* memory : scratch_)
    static_cast<void>(FromRuntime(api_, AllocatorFree(api_, allocator_, memory)));
  if (allocator_ != nullptr) ReleaseAllocator(api_, allocator_);
}

int PackCall::Keep(Status status) {
  if (status.ok()) return 0;
  status_ = std::move(status);
  return 1;
}

int PackCall::Keep(OrtStatus* status) {
  return status == nullptr ? 0 : Keep(FromRuntime(api_, status));
}

void PackCall::Fail(OpgraftCall* self, const OpgraftError* error) {
  Self(self).status_ = ToStatus(*error);
}

Status PackCall::ReadTextInput(const OrtValue* value, OpgraftTensor* tensor) {
  std::string storage;
  std::vector<std::string_view> views;
  const std::size_t elements = Elements({tensor->shape, tensor->rank});
  Status status = ReadTexts(api_, value, elements, &storage, &views);
  // Of the call, as the shape is.
  auto* const bytes = static_cast<char*>(memory()->allocate(storage.size() + 1, 1));
  storage.copy(bytes, storage.size());
  auto* const texts = static_cast<OpgraftText*>(
      memory()->allocate((elements + 1) * sizeof(OpgraftText), alignof(OpgraftText)));
  for (std::size_t i = 0; i < views.size(); ++i) {
    texts[i] = {bytes + (views[i].data() - storage.data()), views[i].size()};
  }
  tensor->data = texts;
  return status;
}

std::pmr::memory_resource* PackCall::memory() {
  if (!memory_) memory_.emplace(buffer_.data(), buffer_.size());
  return &*memory_;
}

int PackCall::Input(OpgraftCall* self, std::size_t index, OpgraftTensor* tensor) {
  PackCall& call = Self(self);
  *tensor = {};
  const OrtValue* value = nullptr;
  OrtStatus* status = KernelContext_GetInput(call.api_, call.context_, index, &value);
  if (status != nullptr || value == nullptr) return call.Keep(status);
  TensorParts parts;
  status = GetTensorParts(call.runtime_, value,
                          call.runtime_.LendsShapes() ? nullptr : call.memory(), &parts);
  if (status != nullptr) return call.Keep(status);
  *tensor = {parts.data, parts.shape.data(), parts.shape.size(), parts.element_type};
  return parts.element_type == kTextType ? call.Keep(call.ReadTextInput(value, tensor)) : 0;
}

std::int32_t PackCall::OutputType(std::size_t index) const {
  return output_types_[index < output_types_.size() ? index : output_types_.size() - 1];
}

int PackCall::Output(OpgraftCall* self, std::size_t index, const std::int64_t* shape,
                     std::size_t rank, OpgraftTensor* tensor) {
  PackCall& call = Self(self);
  *tensor = {};
  OrtValue* value = nullptr;
  OrtStatus* status = KernelContext_GetOutput(call.api_, call.context_, index, shape, rank, &value);
  if (status != nullptr || value == nullptr) return call.Keep(status);
  void* data = nullptr;
  status = GetTensorMutableData(call.api_, value, &data);
  static char nothing = 0;  // an empty tensor may have no memory, and yet it is there
  *tensor = {data != nullptr ? data : &nothing, shape, rank, call.OutputType(index)};
  return call.Keep(status);
}

int PackCall::StoreTexts(OpgraftCall* self, std::size_t index, const std::int64_t* shape,
                         std::size_t rank, const OpgraftText* texts) {
  PackCall& call = Self(self);
  OrtValue* value = nullptr;
  OrtStatus* status = KernelContext_GetOutput(call.api_, call.context_, index, shape, rank, &value);
  const std::size_t elements = Elements({shape, rank});
  for (std::size_t i = 0; status == nullptr && value != nullptr && i < elements; ++i) {
    status = StoreText(call.api_, value, i, {texts[i].data, texts[i].size});
  }
  return call.Keep(status);
}

int PackCall::Scratch(OpgraftCall* self, std::size_t bytes, void** memory) {
  PackCall& call = Self(self);
  OrtStatus* status = nullptr;
  if (call.allocator_ == nullptr) {
    OrtMemoryInfo* info = nullptr;
    constexpr int kArena = 1;
    constexpr int kDefaultMemory = 0;
    status = CreateCpuMemoryInfo(call.api_, kArena, kDefaultMemory, &info);
    if (status == nullptr) {
      status = KernelContext_GetAllocator(call.api_, call.context_, info, &call.allocator_);
      ReleaseMemoryInfo(call.api_, info);
    }
  }
  if (status == nullptr) {
    status = AllocatorAlloc(call.api_, call.allocator_, bytes > 0 ? bytes : 1, memory);
  }
  if (status != nullptr) return call.Keep(status);
  if (*memory == nullptr) {
    return call.Keep(
        Status::Error("ONNX Runtime has no " + std::to_string(bytes) + " bytes of scratch memory"));
  }
  call.scratch_.push_back(*memory);
  return 0;
}

int PackCall::ParallelFor(OpgraftCall* self, std::size_t total, std::size_t batches,
                          void (*body)(void*, std::size_t), void* argument) {
  PackCall& call = Self(self);
#if defined(__SANITIZE_THREAD__)
  WatchedLoop loop{body, argument};
  __tsan_release(&loop.begin);
  const int failed = call.Keep(KernelContext_ParallelFor(call.api_, call.context_,
                                                         &WatchedLoop::Run, total, batches, &loop));
  __tsan_acquire(&loop.end);
  return failed;
#else
  return call.Keep(
      KernelContext_ParallelFor(call.api_, call.context_, body, total, batches, argument));
#endif
}

int PackCall::Log(OpgraftCall* self, std::int32_t severity, const OpgraftText* text) {
  PackCall& call = Self(self);
  const OrtLogger* logger = nullptr;
  OrtStatus* status = KernelContext_GetLogger(call.api_, call.context_, &logger);
  if (status == nullptr) {
    const std::string message = Readable(std::string_view(text->data, text->size));
    status =
        Logger_LogMessage(call.api_, logger, severity, message.c_str(), "opgraft", 0, "kernel");
  }
  return call.Keep(status);
}

const OpgraftInferenceTable PackInference::kTable = {&Fail,      &InputCount, &OutputCount, &Input,
                                                     &Attribute, &Constant,   &SetOutput};

PackInference::PackInference(const Runtime& runtime, OrtShapeInferContext* context, std::string who)
    : OpgraftInference{&kTable},
      runtime_(runtime),
      context_(context),
      attributes_(runtime, context),
      who_(std::move(who)) {}

Status PackInference::Read() {
  const OrtApi* const api = runtime_.api;
  std::size_t count = 0;
  Status status = FromRuntime(api, ShapeInferContext_GetInputCount(api, context_, &count));
  for (std::size_t i = 0; i < count && status.ok(); ++i) {
    Known& known = inputs_.emplace_back();
    // An absent input has no type to be read.
    if (!ReadShape(api, context_, i, &known.type, &known.shape).ok()) known = Known();
    if (!known.shape) continue;
    for (const Dimension& dimension : *known.shape) {
      known.dimensions.push_back({dimension.size, dimension.symbol.c_str()});
    }
  }
  return status;
}

void PackInference::Fail(OpgraftInference* self, const OpgraftError* error) {
  Self(self).status_ = ToStatus(*error);
}

int PackInference::Input(OpgraftInference* self, std::size_t index, OpgraftShape* shape) {
  const std::vector<Known>& inputs = Self(self).inputs_;
  *shape = {};
  if (index >= inputs.size()) return 0;
  const Known& known = inputs[index];
  *shape = {known.type, known.shape ? 1 : 0, known.dimensions.size(), known.dimensions.data()};
  return 0;
}

int PackInference::Attribute(OpgraftInference* self, const char* name, std::int32_t kind,
                             OpgraftAttribute* attribute) {
  PackInference& inference = Self(self);
  *attribute = {};
  if (!inference.attributes_.Has(name)) return 0;
  Status status = inference.values_.emplace_back(inference.runtime_)
                      .Read(inference.attributes_, name, kind, attribute);
  if (status.ok() && attribute->kind == 0) {
    status = Status::Unavailable("attribute '" + std::string(name) + "' cannot be read here");
  }
  if (status.ok()) return 0;
  inference.status_ = std::move(status);
  return 1;
}

int PackInference::SetOutput(OpgraftInference* self, std::size_t index, const OpgraftShape* shape) {
  PackInference& inference = Self(self);
  // Without dimensions it would be taken for a scalar's, or a scalar's for one that is not known.
  if (shape->has_rank == 0 || shape->rank == 0 || shape->element_type == 0) return 0;
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < shape->rank; ++i) {
    const OpgraftDimension& one = shape->dimensions[i];
    dimensions.push_back({one.size, one.symbol != nullptr ? one.symbol : ""});
  }
  Status status = WriteShape(inference.runtime_.api, inference.context_, inference.who_, index,
                             shape->element_type, dimensions);
  if (status.ok()) return 0;
  inference.status_ = std::move(status);
  return 1;
}

}  // namespace opgraft::ort
