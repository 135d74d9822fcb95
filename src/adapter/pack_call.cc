// Implements the functions that a pack calls with functions of the runtime.
#include "adapter/pack_call.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "adapter/calls.h"
#include "adapter/tensors.h"
#include "base/pack_error.h"
#include "base/text.h"

namespace opgraft::ort {

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

/// Tells the thread sanitizer what it cannot see, because the runtime is not built with it: the
/// runtime's threads begin a loop after we call for it, and we continue after they are done. Races
/// between these threads are still found.
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

const OpgraftCallTable PackCall::kTable = {&Fail,    &Input,       &Output, &StoreTexts,
                                           &Scratch, &ParallelFor, &Log,    &Stream};

PackCall::PackCall(const Runtime& runtime, OrtKernelContext* context,
                   const std::vector<std::int32_t>& output_types, const Device* device)
    : OpgraftCall{&kTable},
      runtime_(runtime),
      api_(runtime.api),
      context_(context),
      output_types_(output_types),
      device_(device) {}

PackCall::~PackCall() {
  for (void* memory : scratch_) {
    if (device_ != nullptr) {
      device_->Free(memory);
    } else {
      static_cast<void>(FromRuntime(api_, AllocatorFree(api_, allocator_, memory)));
    }
  }
  if (allocator_ != nullptr) ReleaseAllocator(api_, allocator_);
}

int PackCall::Keep(Status status) { return errors_.Keep(std::move(status)); }

int PackCall::Keep(OrtStatus* status) {
  return status == nullptr ? 0 : Keep(FromRuntime(api_, status));
}

void PackCall::Fail(OpgraftCall* self, const OpgraftError* error) {
  Self(self).errors_.Report(*error);
}

Status PackCall::ReadTextInput(const OrtValue* value, OpgraftTensor* tensor) {
  std::string storage;
  std::vector<std::string_view> views;
  const std::size_t elements = Elements({tensor->shape, tensor->rank});
  Status status = ReadTexts(api_, value, elements, &storage, &views);
  // The texts live as long as the call, like the shape.
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
  if (status == nullptr && data == nullptr && Elements({shape, rank}) > 0) {
    // This is how ONNX Runtime tells a kernel on a device that there is no memory.
    const std::string problem = call.device_ != nullptr ? MemoryProblem(call.device_->provider())
                                                        : "there is no memory left";
    return call.Keep(Status::Error("output " + std::to_string(index) + ": " + problem));
  }
  static char nothing = 0;  // an empty tensor may have no memory, but is not absent
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
  if (call.device_ != nullptr) {
    if (call.Keep(call.device_->Allocate(bytes > 0 ? bytes : 1, memory)) != 0) return 1;
    call.scratch_.push_back(*memory);
    return 0;
  }
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

int PackCall::Stream(OpgraftCall* self, void** stream) {
  PackCall& call = Self(self);
  if (call.device_ != nullptr) return call.Keep(call.device_->Stream(call.context_, stream));
  return call.Keep(Status::Error("a kernel for the CPU has no stream"));
}

}  // namespace opgraft::ort
