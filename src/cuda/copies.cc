// A copy is made on the stream of its run. We wait for it if the host will read the result, or may
// overwrite the source.
#include "cuda/copies.h"

#include <climits>
#include <string>
#include <vector>

#include "adapter/calls.h"
#include "adapter/tensors.h"
#include "cuda/gpu.h"
#include "cuda/run.h"

namespace opgraft::cuda {
namespace {

/// Where a value lies.
struct Place {
  bool is_ours = false;    ///< memory of an NVIDIA GPU, or pinned host memory
  bool is_device = false;  ///< not accessible to the CPU
  std::size_t device = 0;
};

Place PlaceOf(const OrtEpApi* api, const OrtMemoryDevice* device) {
  Place place;
  if (MemoryDevice_GetDeviceType(api, device) != kGpuMemory) return place;
  place.is_ours = MemoryDevice_GetVendorId(api, device) == kNvidia;
  place.is_device = MemoryDevice_GetMemoryType(api, device) == kDeviceMemory;
  place.device = MemoryDevice_GetDeviceId(api, device);
  return place;
}

/// Copies all elements of one tensor to another of the same type and shape. Outside of a run the
/// copy is complete when this returns.
Status CopyTensor(const ort::Runtime& runtime, const OrtValue* from, OrtValue* to) {
  const OrtApi* const api = runtime.api;
  const OrtEpApi* const provider_api = ort::GetEpApi(api);
  const Place source = PlaceOf(provider_api, Value_GetMemoryDevice(provider_api, from));
  const Place target = PlaceOf(provider_api, Value_GetMemoryDevice(provider_api, to));
  std::size_t bytes = 0;
  void* from_data = nullptr;
  void* to_data = nullptr;
  OrtStatus* status = GetTensorSizeInBytes(api, from, &bytes);
  if (status == nullptr) {
    status = ort::GetTensorMutableData(api, const_cast<OrtValue*>(from), &from_data);
  }
  if (status == nullptr) status = ort::GetTensorMutableData(api, to, &to_data);
  if (status != nullptr) return ort::FromRuntime(api, status);
  if (bytes == 0) return Status();
  if (from_data == nullptr || to_data == nullptr) {
    // This is how ONNX Runtime tells that there is no memory.
    return target.is_device
               ? Gpu::LastProblem()
               : Status::Error("there is no memory left for " + std::to_string(bytes) + " bytes");
  }
  Gpu* gpu = nullptr;
  Status found = Gpu::Find(target.is_ours ? target.device : source.device, &gpu);
  if (!found.ok()) return found;
  if (source.is_device && target.is_device && source.device != target.device) {
    // Streams of one GPU do not wait for those of another.
    Gpu* other = nullptr;
    if (Status status = Gpu::Find(source.device, &other); !status.ok()) return status;
    if (Status status = other->SynchronizeAll(); !status.ok()) return status;
  }
  const KnownStream* const run = FindRun(*gpu);
  Stream const stream = run != nullptr ? run->stream : nullptr;
  Status copied = gpu->Copy(to_data, from_data, bytes, stream);
  if (!copied.ok()) return copied;
  const bool may_go_on =
      run != nullptr && target.is_device && (source.is_device || !gpu->IsPinned(from_data));
  return may_go_on ? Status() : gpu->Synchronize(stream);
}

struct DataTransfer : DataTransferTable {
  explicit DataTransfer(const ort::Runtime& of) : runtime(of) {
    Release = [](DataTransferTable* self) { delete static_cast<DataTransfer*>(self); };
    CanCopy = [](const DataTransferTable* self, const OrtMemoryDevice* from,
                 const OrtMemoryDevice* to) {
      const OrtEpApi* const api =
          ort::GetEpApi(static_cast<const DataTransfer*>(self)->runtime.api);
      const auto is_known = [&](const OrtMemoryDevice* one) {
        return PlaceOf(api, one).is_ours || MemoryDevice_GetDeviceType(api, one) == kCpuMemory;
      };
      const bool is_ours = PlaceOf(api, from).is_ours || PlaceOf(api, to).is_ours;
      return is_ours && is_known(from) && is_known(to);
    };
    CopyTensors = [](DataTransferTable* self, const OrtValue** from, OrtValue** to, OrtSyncStream**,
                     std::size_t count) {
      const ort::Runtime& runtime = static_cast<DataTransfer*>(self)->runtime;
      return ort::Guarded(runtime.api, [&] {
        for (std::size_t i = 0; i < count; ++i) {
          if (Status status = CopyTensor(runtime, from[i], to[i]); !status.ok()) return status;
        }
        return Status();
      });
    };
  }
  const ort::Runtime runtime;
};

struct CopyKernel : KernelTable {
  explicit CopyKernel(const ort::Runtime& of) : runtime(of) {
    Compute = [](KernelTable* self, OrtKernelContext* context) {
      const ort::Runtime& runtime = static_cast<CopyKernel*>(self)->runtime;
      return ort::Guarded(runtime.api, [&] { return Copy(runtime, context); });
    };
    Release = [](KernelTable* self) { delete static_cast<CopyKernel*>(self); };
  }

  static Status Copy(const ort::Runtime& runtime, OrtKernelContext* context) {
    const OrtApi* const api = runtime.api;
    const OrtValue* from = nullptr;
    OrtStatus* status = ort::KernelContext_GetInput(api, context, 0, &from);
    if (status != nullptr || from == nullptr) return ort::FromRuntime(api, status);
    ort::TensorParts parts;
    status = ort::GetTensorParts(runtime, from, nullptr, &parts);
    OrtValue* to = nullptr;
    if (status == nullptr) {
      status = ort::KernelContext_GetOutput(api, context, 0, parts.shape.data(), parts.shape.size(),
                                            &to);
    }
    if (status != nullptr || to == nullptr) return ort::FromRuntime(api, status);
    return CopyTensor(runtime, from, to);
  }
  const ort::Runtime runtime;
};

/// Returns all types with elements of a fixed size.
std::vector<const OrtDataType*> ElementTypes(const OrtApi* api) {
  constexpr int kLast = 30;  // well beyond the existing types
  std::vector<const OrtDataType*> types;
  for (int type = 1; type < kLast; ++type) {
    const OrtDataType* found = nullptr;
    if (type == ort::kTextType) continue;
    if (OrtStatus* const status = GetTensorDataType(ort::GetEpApi(api), type, &found)) {
      ort::ReleaseStatus(api, status);
    } else if (found != nullptr) {
      types.push_back(found);
    }
  }
  return types;
}

Status AddCopyKernel(const ort::Runtime& runtime, bool is_to_host, OrtKernelRegistry* registry) {
  const OrtEpApi* const api = ort::GetEpApi(runtime.api);
  OrtKernelDefBuilder* builder = nullptr;
  OrtKernelDef* definition = nullptr;
  const std::vector<const OrtDataType*> types = ElementTypes(runtime.api);
  OrtStatus* status = CreateKernelDefBuilder(api, &builder);
  if (status == nullptr) {
    const char* const name = is_to_host ? "MemcpyToHost" : "MemcpyFromHost";
    status = KernelDefBuilder_SetOperatorType(api, builder, name);
  }
  if (status == nullptr) status = KernelDefBuilder_SetDomain(api, builder, "");
  if (status == nullptr) status = KernelDefBuilder_SetSinceVersion(api, builder, 1, INT_MAX);
  if (status == nullptr) {
    status = KernelDefBuilder_SetExecutionProvider(api, builder, ort::kCudaProvider);
  }
  if (status == nullptr) {
    status = is_to_host ? KernelDefBuilder_SetOutputMemType(api, builder, 0, kCpuOutput)
                        : KernelDefBuilder_SetInputMemType(api, builder, 0, kCpuInput);
  }
  if (status == nullptr) {
    status = KernelDefBuilder_AddTypeConstraint(api, builder, "T", types.data(), types.size());
  }
  if (status == nullptr) status = KernelDefBuilder_Build(api, builder, &definition);
  if (status == nullptr) {
    const CreateKernel create = [](void* state, const OrtKernelInfo*, KernelTable** made) {
      const auto& runtime = *static_cast<const ort::Runtime*>(state);
      return ort::Guarded(runtime.api, [&] {
        *made = new CopyKernel(runtime);
        return Status();
      });
    };
    status = KernelRegistry_AddKernel(api, registry, definition, create,
                                      new ort::Runtime(runtime));  // never freed, as the registry
  }
  if (definition != nullptr) ReleaseKernelDef(api, definition);
  if (builder != nullptr) ReleaseKernelDefBuilder(api, builder);
  return ort::FromRuntime(runtime.api, status);
}

}  // namespace

DataTransferTable* MakeDataTransfer(const ort::Runtime& runtime) {
  return new DataTransfer(runtime);
}

Status MakeCopyKernels(const ort::Runtime& runtime, const OrtKernelRegistry** registry) {
  OrtKernelRegistry* made = nullptr;
  Status status =
      ort::FromRuntime(runtime.api, CreateKernelRegistry(ort::GetEpApi(runtime.api), &made));
  if (status.ok()) status = AddCopyKernel(runtime, /*is_to_host=*/false, made);
  if (status.ok()) status = AddCopyKernel(runtime, /*is_to_host=*/true, made);
  *registry = made;
  return status;
}

}  // namespace opgraft::cuda
