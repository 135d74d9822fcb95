// ONNX Runtime's interface for execution providers: the tables that we fill in, with their members
// in order, and the functions that we call, by their slots. All of them exist since 1.24.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapter/cuda_services.h"
#include "opgraft/onnxruntime.h"

struct OrtEpDevice;
struct OrtEpFactory;
struct OrtEpGraphSupportInfo;
struct OrtDataType;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelDef;
struct OrtKernelDefBuilder;
struct OrtKernelRegistry;
struct OrtKeyValuePairs;
struct OrtMemoryDevice;
struct OrtNode;
struct OrtSyncStream;

namespace opgraft::cuda {

/// The version of the interface that the tables below have.
inline constexpr std::uint32_t kProviderVersion = 24;

struct AllocatorTable {  // OrtAllocator
  std::uint32_t version = kProviderVersion;
  void* (*Alloc)(AllocatorTable*, std::size_t) = nullptr;
  void (*Free)(AllocatorTable*, void*) = nullptr;
  const OrtMemoryInfo* (*Info)(const AllocatorTable*) = nullptr;
  void* (*Reserve)(AllocatorTable*, std::size_t) = nullptr;
  OrtStatus* (*GetStats)(const AllocatorTable*, OrtKeyValuePairs**) = nullptr;
  void* (*AllocOnStream)(AllocatorTable*, std::size_t, OrtSyncStream*) = nullptr;
};

struct DataTransferTable {  // OrtDataTransferImpl
  std::uint32_t version = kProviderVersion;
  void (*Release)(DataTransferTable*) = nullptr;
  bool (*CanCopy)(const DataTransferTable*, const OrtMemoryDevice*,
                  const OrtMemoryDevice*) = nullptr;
  OrtStatus* (*CopyTensors)(DataTransferTable*, const OrtValue**, OrtValue**, OrtSyncStream**,
                            std::size_t) = nullptr;
};

struct KernelTable {  // OrtKernelImpl
  std::uint32_t version = kProviderVersion;
  std::uint32_t flags = 0;
  OrtStatus* (*Compute)(KernelTable*, OrtKernelContext*) = nullptr;
  void (*Release)(KernelTable*) = nullptr;
  void* PrePackWeight = nullptr;
  void* SetSharedPrePackedWeight = nullptr;
};
using CreateKernel = OrtStatus* (*)(void*, const OrtKernelInfo*, KernelTable**);

struct FactoryTable {  // OrtEpFactory
  std::uint32_t version = kProviderVersion;
  const char* (*GetName)(const FactoryTable*) = nullptr;
  const char* (*GetVendor)(const FactoryTable*) = nullptr;
  OrtStatus* (*GetSupportedDevices)(FactoryTable*, const OrtHardwareDevice* const*, std::size_t,
                                    OrtEpDevice**, std::size_t, std::size_t*) = nullptr;
  OrtStatus* (*CreateEp)(FactoryTable*, const OrtHardwareDevice* const*,
                         const OrtKeyValuePairs* const*, std::size_t, const OrtSessionOptions*,
                         const OrtLogger*, OrtEp**) = nullptr;
  void (*ReleaseEp)(FactoryTable*, OrtEp*) = nullptr;
  std::uint32_t (*GetVendorId)(const FactoryTable*) = nullptr;
  const char* (*GetVersion)(const FactoryTable*) = nullptr;
  void* ValidateCompiledModelCompatibilityInfo = nullptr;
  OrtStatus* (*CreateAllocator)(FactoryTable*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                AllocatorTable**) = nullptr;
  void (*ReleaseAllocator)(FactoryTable*, AllocatorTable*) = nullptr;
  OrtStatus* (*CreateDataTransfer)(FactoryTable*, DataTransferTable**) = nullptr;
  bool (*IsStreamAware)(const FactoryTable*) = nullptr;
  void* CreateSyncStreamForDevice = nullptr;
  void* GetHardwareDeviceIncompatibilityDetails = nullptr;
  void* CreateExternalResourceImporterForDevice = nullptr;
  void* GetNumCustomOpDomains = nullptr;
  void* GetCustomOpDomains = nullptr;
};

/// The slots of an OrtEp that we fill in, as ort::CudaProvider has them.
enum EpSlot : std::size_t {
  kGetName = 0,
  kGetCapability = 1,
  kOnRunStart = 7,
  kOnRunEnd = 8,
  kGetKernelRegistry = 12,
  kIsConcurrentRunSupported = 13,
  kSync = 14,  ///< from version 25 on
};

// Of OrtApi.
inline constexpr ort::ApiCall<72, const OrtMemoryInfo*, int*> MemoryInfoGetId{};
inline constexpr ort::ApiFunction<295, void(OrtKeyValuePairs**)> CreateKeyValuePairs{};
inline constexpr ort::ApiFunction<296, void(OrtKeyValuePairs*, const char*, const char*)>
    AddKeyValuePair{};
inline constexpr ort::ApiRelease<300, OrtKeyValuePairs> ReleaseKeyValuePairs{};
inline constexpr ort::ApiFunction<307, int(const OrtHardwareDevice*)> HardwareDevice_Type{};
inline constexpr ort::ApiCall<318, const OrtValue*, std::size_t*> GetTensorSizeInBytes{};
inline constexpr ort::ApiCall<320, const char*, int, std::uint32_t, std::int32_t, int, std::size_t,
                              int, OrtMemoryInfo**>
    CreateMemoryInfo_V2{};
inline constexpr ort::ApiFunction<321, int(const OrtMemoryInfo*)> MemoryInfoGetDeviceMemType{};
inline constexpr ort::ApiCall<344, const OrtGraph*, std::size_t*> Graph_GetNumNodes{};
inline constexpr ort::ApiCall<345, const OrtGraph*, const OrtNode**, std::size_t> Graph_GetNodes{};
inline constexpr ort::ApiCall<368, const OrtNode*, const char**> Node_GetEpName{};
inline constexpr ort::ApiFunction<373, const char*(const OrtRunOptions*, const char*)>
    GetRunConfigEntry{};

// Of OrtEpApi.
template <std::size_t kSlot, class Signature>
using EpFunction = ort::Function<OrtEpApi, kSlot, Signature>;
using ort::EpCall;
inline constexpr EpCall<0, FactoryTable*, const OrtHardwareDevice*, const OrtKeyValuePairs*,
                        const OrtKeyValuePairs*, OrtEpDevice**>
    CreateEpDevice{};
inline constexpr EpCall<3, OrtEpGraphSupportInfo*, const OrtNode*>
    EpGraphSupportInfo_AddSingleNode{};
inline constexpr EpCall<5, OrtEpDevice*, const OrtMemoryInfo*> EpDevice_AddAllocatorInfo{};
inline constexpr EpFunction<7, const OrtMemoryDevice*(const OrtValue*)> Value_GetMemoryDevice{};
inline constexpr EpFunction<9, int(const OrtMemoryDevice*)> MemoryDevice_GetDeviceType{};
inline constexpr EpFunction<10, int(const OrtMemoryDevice*)> MemoryDevice_GetMemoryType{};
inline constexpr EpFunction<11, std::uint32_t(const OrtMemoryDevice*)> MemoryDevice_GetVendorId{};
inline constexpr EpFunction<12, std::uint32_t(const OrtMemoryDevice*)> MemoryDevice_GetDeviceId{};
inline constexpr EpCall<18, OrtKernelRegistry**> CreateKernelRegistry{};
inline constexpr EpCall<20, OrtKernelRegistry*, const OrtKernelDef*, CreateKernel, void*>
    KernelRegistry_AddKernel{};
inline constexpr EpCall<21, OrtKernelDefBuilder**> CreateKernelDefBuilder{};
inline constexpr EpFunction<22, void(OrtKernelDefBuilder*)> ReleaseKernelDefBuilder{};
inline constexpr EpCall<23, OrtKernelDefBuilder*, const char*> KernelDefBuilder_SetOperatorType{};
inline constexpr EpCall<24, OrtKernelDefBuilder*, const char*> KernelDefBuilder_SetDomain{};
inline constexpr EpCall<25, OrtKernelDefBuilder*, int, int> KernelDefBuilder_SetSinceVersion{};
inline constexpr EpCall<26, OrtKernelDefBuilder*, const char*>
    KernelDefBuilder_SetExecutionProvider{};
inline constexpr EpCall<27, OrtKernelDefBuilder*, std::size_t, int>
    KernelDefBuilder_SetInputMemType{};
inline constexpr EpCall<28, OrtKernelDefBuilder*, std::size_t, int>
    KernelDefBuilder_SetOutputMemType{};
inline constexpr EpCall<29, OrtKernelDefBuilder*, const char*, const OrtDataType* const*,
                        std::size_t>
    KernelDefBuilder_AddTypeConstraint{};
inline constexpr EpCall<32, OrtKernelDefBuilder*, OrtKernelDef**> KernelDefBuilder_Build{};
inline constexpr EpFunction<33, void(OrtKernelDef*)> ReleaseKernelDef{};
inline constexpr EpCall<40, int, const OrtDataType**> GetTensorDataType{};
inline constexpr EpCall<41, OrtEpGraphSupportInfo*, const OrtNode*, const OrtKernelDef**>
    EpGraphSupportInfo_LookUpKernel{};

// Values of its enumerations.
inline constexpr int kCpuHardware = 0;      // OrtHardwareDeviceType_CPU
inline constexpr int kGpuMemory = 1;        // OrtMemoryInfoDeviceType_GPU
inline constexpr int kCpuMemory = 0;        // OrtMemoryInfoDeviceType_CPU
inline constexpr int kDeviceMemory = 0;     // OrtDeviceMemoryType_DEFAULT
inline constexpr int kHostAccessible = 5;   // OrtDeviceMemoryType_HOST_ACCESSIBLE
inline constexpr int kDeviceAllocator = 0;  // OrtDeviceAllocator
inline constexpr int kCpuInput = -2;        // OrtMemTypeCPUInput
inline constexpr int kCpuOutput = -1;       // OrtMemTypeCPUOutput
inline constexpr std::uint32_t kNvidia = 0x10DE;

}  // namespace opgraft::cuda
