// The functions of libopgraft_cuda.so that ONNX Runtime calls in the library of an execution
// provider.
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "adapter/calls.h"
#include "adapter/runtime.h"
#include "cuda/copies.h"
#include "cuda/gpu.h"
#include "cuda/provider.h"
#include "cuda/run.h"
#include "cuda/tables.h"

namespace opgraft::cuda {
namespace {

constexpr char kDeviceKey[] = "cuda_device_id";
/// Tensors of other origin declare no alignment, and would be copied if ours declared one.
constexpr std::size_t kNoAlignment = 0;

/// The allocator of one GPU, for device memory or for pinned host memory.
struct Allocator : AllocatorTable {
  Allocator(Gpu& of, const OrtMemoryInfo* described, bool pinned)
      : gpu(of), info(described), is_pinned(pinned) {
    Alloc = Reserve = [](AllocatorTable* self, std::size_t bytes) -> void* {
      return Self(self).Allocate(bytes);
    };
    Free = [](AllocatorTable* self, void* memory) {
      Allocator& one = Self(self);
      one.is_pinned ? one.gpu.FreePinned(memory) : cuda::Free(one.gpu, memory);
    };
    Info = [](const AllocatorTable* self) { return static_cast<const Allocator*>(self)->info; };
  }
  static Allocator& Self(AllocatorTable* self) { return static_cast<Allocator&>(*self); }

  void* Allocate(std::size_t bytes) const {
    if (is_pinned) return gpu.AllocatePinned(bytes);
    const KnownStream* const run = FindRun(gpu);
    return run != nullptr ? gpu.Allocate(bytes, *run) : gpu.AllocateForAll(bytes);
  }

  Gpu& gpu;
  const OrtMemoryInfo* const info;
  const bool is_pinned;
};

/// A GPU that is offered to the runtime.
struct Offer {
  Gpu* gpu = nullptr;
  OrtMemoryInfo* memory = nullptr;
  OrtMemoryInfo* pinned_memory = nullptr;
};

/// Never freed, because sessions and values refer to it.
struct Factory : FactoryTable {
  explicit Factory(const ort::Runtime& of);
  static Factory& Self(FactoryTable* self) { return static_cast<Factory&>(*self); }

  Status Prepare();
  Status Describe(const OrtHardwareDevice* const* hardware, std::size_t hardware_count,
                  OrtEpDevice** described, std::size_t most, std::size_t* count);
  Status Create(const OrtKeyValuePairs* const* metadata, std::size_t devices, OrtEp** made);
  Status CreateAllocatorFor(const OrtMemoryInfo* info, AllocatorTable** made);

  const ort::Runtime runtime;
  std::vector<Offer> offers;
  const OrtKernelRegistry* registry = nullptr;
};

Factory::Factory(const ort::Runtime& of) : runtime(of) {
  GetName = [](const FactoryTable*) { return ort::kCudaProvider; };
  GetVendor = [](const FactoryTable*) { return "opgraft"; };
  GetVendorId = [](const FactoryTable*) { return kNvidia; };
  GetVersion = [](const FactoryTable*) { return OPGRAFT_VERSION; };
  IsStreamAware = [](const FactoryTable*) { return false; };
  GetSupportedDevices = [](FactoryTable* self, const OrtHardwareDevice* const* hardware,
                           std::size_t hardware_count, OrtEpDevice** described, std::size_t most,
                           std::size_t* count) {
    return ort::Guarded(Self(self).runtime.api, [&] {
      return Self(self).Describe(hardware, hardware_count, described, most, count);
    });
  };
  CreateEp = [](FactoryTable* self, const OrtHardwareDevice* const*,
                const OrtKeyValuePairs* const* metadata, std::size_t devices,
                const OrtSessionOptions*, const OrtLogger*, OrtEp** made) {
    return ort::Guarded(Self(self).runtime.api,
                        [&] { return Self(self).Create(metadata, devices, made); });
  };
  ReleaseEp = [](FactoryTable*, OrtEp* ep) { Provider::Delete(ep); };
  CreateAllocator = [](FactoryTable* self, const OrtMemoryInfo* info, const OrtKeyValuePairs*,
                       AllocatorTable** made) {
    return ort::Guarded(Self(self).runtime.api,
                        [&] { return Self(self).CreateAllocatorFor(info, made); });
  };
  ReleaseAllocator = [](FactoryTable*, AllocatorTable* allocator) {
    delete &Allocator::Self(allocator);
  };
  CreateDataTransfer = [](FactoryTable* self, DataTransferTable** made) {
    return ort::Guarded(Self(self).runtime.api, [&] {
      *made = MakeDataTransfer(Self(self).runtime);
      return Status();
    });
  };
}

/// Finds the GPUs. If there are none, the library offers no device.
Status Factory::Prepare() {
  const std::vector<Gpu*>* gpus = nullptr;
  if (!Gpu::FindAll(&gpus).ok()) return Status();
  const OrtApi* const api = runtime.api;
  for (Gpu* const gpu : *gpus) {
    Offer offer;
    offer.gpu = gpu;
    const auto describe = [&](const char* name, int kind, OrtMemoryInfo** info) {
      return CreateMemoryInfo_V2(api, name, kGpuMemory, kNvidia, gpu->index(), kind, kNoAlignment,
                                 kDeviceAllocator, info);
    };
    OrtStatus* status = describe("OpgraftCUDA", kDeviceMemory, &offer.memory);
    if (status == nullptr) {
      status = describe("OpgraftCUDAPinned", kHostAccessible, &offer.pinned_memory);
    }
    if (status != nullptr) return ort::FromRuntime(api, status);
    offers.push_back(offer);
  }
  return MakeCopyKernels(runtime, &registry);
}

Status Factory::Describe(const OrtHardwareDevice* const* hardware, std::size_t hardware_count,
                         OrtEpDevice** described, std::size_t most, std::size_t* count) {
  *count = 0;
  const OrtApi* const api = runtime.api;
  const OrtEpApi* const provider_api = ort::GetEpApi(api);
  // The runtime's CPU wheel may not see a GPU as hardware: all are offered as devices of the CPU.
  const OrtHardwareDevice* cpu = nullptr;
  for (std::size_t i = 0; i < hardware_count && cpu == nullptr; ++i) {
    if (HardwareDevice_Type(api, hardware[i]) == kCpuHardware) cpu = hardware[i];
  }
  if (cpu == nullptr) return Status();
  for (const Offer& offer : offers) {
    if (*count == most) break;
    const std::string index = std::to_string(offer.gpu->index());
    OrtKeyValuePairs* metadata = nullptr;
    OrtKeyValuePairs* options = nullptr;
    CreateKeyValuePairs(api, &metadata);
    CreateKeyValuePairs(api, &options);
    AddKeyValuePair(api, metadata, kDeviceKey, index.c_str());
    AddKeyValuePair(api, metadata, "name", offer.gpu->name().c_str());
    AddKeyValuePair(api, options, "device_id", index.c_str());
    OrtEpDevice* device = nullptr;
    OrtStatus* status = CreateEpDevice(provider_api, this, cpu, metadata, options, &device);
    ReleaseKeyValuePairs(api, metadata);
    ReleaseKeyValuePairs(api, options);
    if (status == nullptr) status = EpDevice_AddAllocatorInfo(provider_api, device, offer.memory);
    if (status == nullptr) {
      status = EpDevice_AddAllocatorInfo(provider_api, device, offer.pinned_memory);
    }
    if (status != nullptr) return ort::FromRuntime(api, status);
    described[(*count)++] = device;
  }
  return Status();
}

Status Factory::Create(const OrtKeyValuePairs* const* metadata, std::size_t devices, OrtEp** made) {
  if (devices != 1) {
    return Status::Error("OpgraftCUDA runs on one GPU, not on " + std::to_string(devices) +
                         ". Fix: give it one device");
  }
  const char* const text = ort::GetKeyValue(runtime.api, metadata[0], kDeviceKey);
  std::size_t index = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), index);
  if (text == nullptr || index >= offers.size()) {
    return Status::Error("OpgraftCUDA is given a device that it has not offered");
  }
  Gpu& gpu = *offers[index].gpu;
  if (Status status = gpu.Open(); !status.ok()) return status;
  *made = (new Provider(runtime, gpu, registry))->ep();
  return Status();
}

Status Factory::CreateAllocatorFor(const OrtMemoryInfo* info, AllocatorTable** made) {
  int index = 0;
  Status status = ort::FromRuntime(runtime.api, MemoryInfoGetId(runtime.api, info, &index));
  if (!status.ok()) return status;
  if (index < 0 || static_cast<std::size_t>(index) >= offers.size()) {
    return Status::Error("OpgraftCUDA has no GPU " + std::to_string(index));
  }
  const Offer& offer = offers[static_cast<std::size_t>(index)];
  const bool is_pinned = MemoryInfoGetDeviceMemType(runtime.api, info) == kHostAccessible;
  *made = new Allocator(*offer.gpu, is_pinned ? offer.pinned_memory : offer.memory, is_pinned);
  return Status();
}

}  // namespace
}  // namespace opgraft::cuda

#pragma GCC visibility push(default)

extern "C" OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                        OrtEpFactory** factories, std::size_t most,
                                        std::size_t* count) {
  using opgraft::cuda::Factory;
  *count = 0;
  opgraft::ort::Runtime runtime;
  opgraft::Status status = opgraft::ort::Runtime::Find(base, &runtime);
  if (status.ok() && runtime.version < opgraft::ort::kOldestCudaRuntime) {
    status =
        opgraft::Status::Unavailable("OpgraftCUDA needs ONNX Runtime 1.24 or newer, this one is " +
                                     std::string(opgraft::ort::GetVersionString(base)));
  }
  return opgraft::ort::Guarded(runtime.api, [&] {
    if (!status.ok() || most == 0) return status;
    runtime.api = opgraft::ort::GetApi(base, opgraft::cuda::kProviderVersion);
    auto factory = std::make_unique<Factory>(runtime);
    opgraft::Status prepared = factory->Prepare();
    if (!prepared.ok()) return prepared;
    factories[0] = reinterpret_cast<OrtEpFactory*>(
        static_cast<opgraft::cuda::FactoryTable*>(factory.release()));  // never freed
    *count = 1;
    return prepared;
  });
}

extern "C" OrtStatus* ReleaseEpFactory(OrtEpFactory*) { return nullptr; }

/// Puts all work of this thread on a GPU on a stream until it leaves, including the copies that the
/// runtime makes when inputs are bound. `entry` names the stream as in the run option
/// `opgraft.cuda.stream`. Returns 0 on success.
extern "C" int opgraft_cuda_enter(std::size_t gpu, const char* entry) {
  try {
    opgraft::cuda::Gpu* found = nullptr;
    opgraft::Status status = opgraft::cuda::Gpu::Find(gpu, &found);
    if (status.ok()) status = opgraft::cuda::BeginRun(*found, entry);
    return status.ok() ? 0 : 1;
  } catch (...) {
    return 1;
  }
}
/// Must be called once for each successful opgraft_cuda_enter, by the same thread.
extern "C" void opgraft_cuda_leave(std::size_t gpu) {
  try {
    opgraft::cuda::Gpu* found = nullptr;
    bool is_named = false;
    if (!opgraft::cuda::Gpu::Find(gpu, &found).ok()) return;
    static_cast<void>(opgraft::cuda::EndRun(*found, /*must_wait=*/false, &is_named));
  } catch (...) {  // a stream that is not returned is leaked
  }
}

/// Returns why no GPU can be used, for a message; "" if there is one. The text is never freed.
extern "C" const char* opgraft_cuda_problem() {
  const std::vector<opgraft::cuda::Gpu*>* gpus = nullptr;
  return opgraft::cuda::Gpu::FindAll(&gpus).message().c_str();
}

#pragma GCC visibility pop
