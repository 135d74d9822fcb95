// Our provider supplies stream and memory directly; those of the runtime's provider come from its C
// functions.
#include "adapter/device.h"

#include "adapter/calls.h"

namespace opgraft::ort {
namespace {

constexpr int kDefaultMemory = 0;
constexpr ApiCall<193, const OrtKernelContext*, void**> KernelContext_GetGPUComputeStream{};
constexpr ApiCall<278, const OrtKernelInfo*, int, OrtAllocator**> KernelInfoGetAllocator{};

}  // namespace

Status GpuMissing(const Runtime& runtime, const std::string& what) {
  const char* const newer =
      runtime.version < kOldestCudaRuntime ? "install ONNX Runtime 1.24 or newer, then " : "";
  return Status::Unavailable(
      what + ", and this session has none. Fix: " + newer +
      "opgraft.InferenceSession(..., providers=['OpgraftCUDA', 'CPUExecutionProvider']), in this "
      "order; in C++ opgraft::UseCuda, whose status says why if there is no GPU; for opgraft run, "
      "--gpu 0");
}

Status Device::Find(const Runtime& runtime, const OrtKernelInfo* info,
                    std::unique_ptr<Device>* device) {
  const CudaProvider* const provider = FindCudaProvider(runtime, info);
  OrtAllocator* allocator = nullptr;
  if (provider == nullptr) {
    Status status = FromRuntime(
        runtime.api, KernelInfoGetAllocator(runtime.api, info, kDefaultMemory, &allocator));
    if (!status.ok()) return status;
  }
  device->reset(new Device(runtime, provider, allocator));
  return Status();
}

Device::~Device() {
  if (allocator_ != nullptr) ReleaseAllocator(runtime_.api, allocator_);
}

Status Device::Stream(OrtKernelContext* context, void** stream) const {
  if (provider_ != nullptr) {
    *stream = provider_->stream(provider_);
    return Status();
  }
  return FromRuntime(runtime_.api,
                     KernelContext_GetGPUComputeStream(runtime_.api, context, stream));
}

Status Device::Allocate(std::size_t bytes, void** memory) const {
  *memory = nullptr;
  Status status;
  if (provider_ != nullptr) {
    *memory = provider_->allocate(provider_, bytes);
  } else {
    status = FromRuntime(runtime_.api, AllocatorAlloc(runtime_.api, allocator_, bytes, memory));
  }
  if (!status.ok() || *memory != nullptr) return status;
  return Status::Error(std::to_string(bytes) +
                       " bytes of scratch memory: " + MemoryProblem(provider_));
}

void Device::Free(void* memory) const {
  if (provider_ != nullptr) {
    provider_->free(provider_, memory);
  } else {
    static_cast<void>(FromRuntime(runtime_.api, AllocatorFree(runtime_.api, allocator_, memory)));
  }
}

}  // namespace opgraft::ort
