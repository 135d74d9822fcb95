// The C functions of ONNX Runtime that Opgraft calls, each by its slot in the OrtApi table.
//
// ONNX Runtime's packages do not contain its C header. Its table only ever grows at the end, so
// that a slot and a signature are enough to call every runtime from 1.19 on. This header may be
// included together with ONNX Runtime's own, in any order.
#pragma once

#include <cstddef>
#include <cstdint>

struct OrtAllocator;
struct OrtApi;
struct OrtApiBase;
struct OrtCustomOp;
struct OrtCustomOpDomain;
struct OrtEnv;
struct OrtEpDevice;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtKeyValuePairs;
struct OrtLogger;
struct OrtMemoryInfo;
struct OrtOpAttr;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;

/// The only function that a program finds in libonnxruntime.so by name, through linking or dlsym.
/// All others are in the table that it leads to.
extern "C" const OrtApiBase* OrtGetApiBase() noexcept;

namespace opgraft::ort {

/// The API version that we request. It has all functions used here, except where noted.
inline constexpr std::uint32_t kApiVersion = 18;

/// The OrtErrorCode of our errors, ORT_FAIL.
inline constexpr int kFail = 1;

template <class Table, std::size_t kSlot, class Signature>
struct Function;

/// A function of a table of function pointers: `Function(table, arguments...)` calls it.
template <class Table, std::size_t kSlot, class Result, class... Arguments>
struct Function<Table, kSlot, Result(Arguments...)> {
  Result operator()(const Table* table, Arguments... arguments) const {
    using Pointer = Result (*)(Arguments...);
    return reinterpret_cast<const Pointer*>(table)[kSlot](arguments...);
  }
};

template <std::size_t kSlot, class Signature>
using ApiFunction = Function<OrtApi, kSlot, Signature>;

/// Most functions return a status, which the caller releases; nullptr means success.
template <std::size_t kSlot, class... Arguments>
using ApiCall = ApiFunction<kSlot, OrtStatus*(Arguments...)>;

template <std::size_t kSlot, class Object>
using ApiRelease = ApiFunction<kSlot, void(Object*)>;

inline constexpr Function<OrtApiBase, 0, const OrtApi*(std::uint32_t)> GetApi{};
inline constexpr Function<OrtApiBase, 1, const char*()> GetVersionString{};

inline constexpr ApiCall<0, int, const char*> CreateStatus{};
inline constexpr ApiFunction<2, const char*(const OrtStatus*)> GetErrorMessage{};
inline constexpr ApiRelease<93, OrtStatus> ReleaseStatus{};

// Sessions.
inline constexpr ApiCall<3, int, const char*, OrtEnv**> CreateEnv{};
inline constexpr ApiCall<7, const OrtEnv*, const char*, const OrtSessionOptions*, OrtSession**>
    CreateSession{};
inline constexpr ApiCall<8, const OrtEnv*, const void*, std::size_t, const OrtSessionOptions*,
                         OrtSession**>
    CreateSessionFromArray{};
inline constexpr ApiCall<9, OrtSession*, const OrtRunOptions*, const char* const*,
                         const OrtValue* const*, std::size_t, const char* const*, std::size_t,
                         OrtValue**>
    Run{};
inline constexpr ApiCall<10, OrtSessionOptions**> CreateSessionOptions{};
inline constexpr ApiCall<12, const OrtSessionOptions*, OrtSessionOptions**> CloneSessionOptions{};
inline constexpr ApiCall<11, OrtSessionOptions*, const char*> SetOptimizedModelFilePath{};
inline constexpr ApiCall<13, OrtSessionOptions*, int> SetSessionExecutionMode{};
inline constexpr ApiCall<15, OrtSessionOptions*> DisableProfiling{};
inline constexpr ApiCall<22, OrtSessionOptions*, int> SetSessionLogSeverityLevel{};
inline constexpr ApiCall<23, OrtSessionOptions*, int> SetSessionGraphOptimizationLevel{};
inline constexpr ApiCall<24, OrtSessionOptions*, int> SetIntraOpNumThreads{};
inline constexpr ApiCall<228, OrtSessionOptions*, const char*> RegisterCustomOpsLibrary_V2{};
inline constexpr ApiCall<30, const OrtSession*, std::size_t*> SessionGetInputCount{};
inline constexpr ApiCall<31, const OrtSession*, std::size_t*> SessionGetOutputCount{};
inline constexpr ApiCall<33, const OrtSession*, std::size_t, OrtTypeInfo**>
    SessionGetInputTypeInfo{};
inline constexpr ApiCall<34, const OrtSession*, std::size_t, OrtTypeInfo**>
    SessionGetOutputTypeInfo{};
inline constexpr ApiCall<36, const OrtSession*, std::size_t, OrtAllocator*, char**>
    SessionGetInputName{};
inline constexpr ApiCall<37, const OrtSession*, std::size_t, OrtAllocator*, char**>
    SessionGetOutputName{};
inline constexpr ApiCall<130, OrtSessionOptions*, const char*, const char*> AddSessionConfigEntry{};
inline constexpr ApiCall<237, const OrtSessionOptions*, const char*, int*> HasSessionConfigEntry{};
inline constexpr ApiCall<238, const OrtSessionOptions*, const char*, char*, std::size_t*>
    GetSessionConfigEntry{};
inline constexpr ApiCall<39, OrtRunOptions**> CreateRunOptions{};
inline constexpr ApiCall<165, OrtRunOptions*, const char*, const char*> AddRunConfigEntry{};
inline constexpr ApiRelease<92, OrtEnv> ReleaseEnv{};
inline constexpr ApiRelease<95, OrtSession> ReleaseSession{};
inline constexpr ApiRelease<97, OrtRunOptions> ReleaseRunOptions{};
inline constexpr ApiRelease<100, OrtSessionOptions> ReleaseSessionOptions{};

// Values.
inline constexpr ApiCall<48, OrtAllocator*, const std::int64_t*, std::size_t, int, OrtValue**>
    CreateTensorAsOrtValue{};
inline constexpr ApiCall<49, const OrtMemoryInfo*, void*, std::size_t, const std::int64_t*,
                         std::size_t, int, OrtValue**>
    CreateTensorWithDataAsOrtValue{};
inline constexpr ApiCall<50, const OrtValue*, int*> IsTensor{};
inline constexpr ApiCall<51, OrtValue*, void**> GetTensorMutableData{};
inline constexpr ApiCall<53, const OrtValue*, std::size_t*> GetStringTensorDataLength{};
inline constexpr ApiCall<54, const OrtValue*, void*, std::size_t, std::size_t*, std::size_t>
    GetStringTensorContent{};
inline constexpr ApiCall<55, const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**>
    CastTypeInfoToTensorInfo{};
inline constexpr ApiCall<57, OrtTensorTypeAndShapeInfo**> CreateTensorTypeAndShapeInfo{};
inline constexpr ApiCall<58, OrtTensorTypeAndShapeInfo*, int> SetTensorElementType{};
inline constexpr ApiCall<59, OrtTensorTypeAndShapeInfo*, const std::int64_t*, std::size_t>
    SetDimensions{};
inline constexpr ApiCall<60, const OrtTensorTypeAndShapeInfo*, int*> GetTensorElementType{};
inline constexpr ApiCall<61, const OrtTensorTypeAndShapeInfo*, std::size_t*> GetDimensionsCount{};
inline constexpr ApiCall<62, const OrtTensorTypeAndShapeInfo*, std::int64_t*, std::size_t>
    GetDimensions{};
inline constexpr ApiCall<63, const OrtTensorTypeAndShapeInfo*, const char**, std::size_t>
    GetSymbolicDimensions{};
inline constexpr ApiCall<65, const OrtValue*, OrtTensorTypeAndShapeInfo**> GetTensorTypeAndShape{};
inline constexpr ApiCall<67, const OrtValue*, int*> GetValueType{};
inline constexpr ApiCall<80, const OrtValue*, int, OrtAllocator*, OrtValue**> GetValue{};
inline constexpr ApiCall<81, const OrtValue*, std::size_t*> GetValueCount{};
inline constexpr ApiCall<252, OrtValue*, std::size_t, std::size_t, char**>
    GetResizedStringTensorElementBuffer{};
/// Only in runtimes from 1.24 on. Returns whether the rank is known.
inline constexpr ApiFunction<390, bool(const OrtTensorTypeAndShapeInfo*)>
    TensorTypeAndShape_HasShape{};
/// Only in runtimes from 1.24 on. The shape belongs to the runtime.
inline constexpr ApiCall<414, const OrtValue*, int*, const std::int64_t**, std::size_t*>
    GetTensorElementTypeAndShapeDataReference{};
inline constexpr ApiCall<69, int, int, OrtMemoryInfo**> CreateCpuMemoryInfo{};
inline constexpr ApiCall<75, OrtAllocator*, std::size_t, void**> AllocatorAlloc{};
inline constexpr ApiCall<76, OrtAllocator*, void*> AllocatorFree{};
inline constexpr ApiCall<78, OrtAllocator**> GetAllocatorWithDefaultOptions{};
inline constexpr ApiRelease<94, OrtMemoryInfo> ReleaseMemoryInfo{};
inline constexpr ApiRelease<132, OrtAllocator> ReleaseAllocator{};
inline constexpr ApiRelease<96, OrtValue> ReleaseValue{};
inline constexpr ApiRelease<98, OrtTypeInfo> ReleaseTypeInfo{};
inline constexpr ApiRelease<99, OrtTensorTypeAndShapeInfo> ReleaseTensorTypeAndShapeInfo{};

// Custom operators.
inline constexpr ApiCall<26, const char*, OrtCustomOpDomain**> CreateCustomOpDomain{};
inline constexpr ApiCall<27, OrtCustomOpDomain*, const OrtCustomOp*> CustomOpDomain_Add{};
inline constexpr ApiCall<28, OrtSessionOptions*, OrtCustomOpDomain*> AddCustomOpDomain{};
inline constexpr ApiCall<85, const OrtKernelInfo*, const char*, float*>
    KernelInfoGetAttribute_float{};
inline constexpr ApiCall<86, const OrtKernelInfo*, const char*, std::int64_t*>
    KernelInfoGetAttribute_int64{};
inline constexpr ApiCall<87, const OrtKernelInfo*, const char*, char*, std::size_t*>
    KernelInfoGetAttribute_string{};
inline constexpr ApiCall<162, const OrtKernelInfo*, const char*, float*, std::size_t*>
    KernelInfoGetAttributeArray_float{};
inline constexpr ApiCall<163, const OrtKernelInfo*, const char*, std::int64_t*, std::size_t*>
    KernelInfoGetAttributeArray_int64{};
inline constexpr ApiCall<236, const OrtKernelInfo*, const char*, OrtAllocator*, OrtValue**>
    KernelInfoGetAttribute_tensor{};
/// Only in runtimes from 1.25 on. The caller frees the texts one by one.
inline constexpr ApiCall<417, const OrtKernelInfo*, const char*, OrtAllocator*, char***,
                         std::size_t*>
    KernelInfoGetAttributeArray_string{};
inline constexpr ApiCall<249, const OrtKernelInfo*, std::size_t, int*, const OrtValue**>
    KernelInfoGetConstantInput_tensor{};
inline constexpr ApiCall<230, const OrtKernelInfo*, std::size_t*> KernelInfo_GetInputCount{};
inline constexpr ApiCall<231, const OrtKernelInfo*, std::size_t*> KernelInfo_GetOutputCount{};
inline constexpr ApiCall<233, const OrtKernelInfo*, std::size_t, char*, std::size_t*>
    KernelInfo_GetOutputName{};
inline constexpr ApiCall<234, const OrtKernelInfo*, std::size_t, OrtTypeInfo**>
    KernelInfo_GetInputTypeInfo{};
inline constexpr ApiCall<235, const OrtKernelInfo*, std::size_t, OrtTypeInfo**>
    KernelInfo_GetOutputTypeInfo{};
inline constexpr ApiCall<244, const OrtKernelInfo*, char*, std::size_t*> KernelInfo_GetNodeName{};
inline constexpr ApiCall<267, const OrtShapeInferContext*, std::size_t*>
    ShapeInferContext_GetInputCount{};
inline constexpr ApiCall<268, const OrtShapeInferContext*, std::size_t, OrtTensorTypeAndShapeInfo**>
    ShapeInferContext_GetInputTypeShape{};
inline constexpr ApiCall<269, const OrtShapeInferContext*, const char*, const OrtOpAttr**>
    ShapeInferContext_GetAttribute{};
inline constexpr ApiCall<270, const OrtShapeInferContext*, std::size_t,
                         const OrtTensorTypeAndShapeInfo*>
    ShapeInferContext_SetOutputTypeShape{};
inline constexpr ApiCall<271, OrtTensorTypeAndShapeInfo*, const char**, std::size_t>
    SetSymbolicDimensions{};
inline constexpr ApiCall<272, const OrtOpAttr*, int, void*, std::size_t, std::size_t*> ReadOpAttr{};
inline constexpr ApiCall<246, const OrtKernelContext*, const OrtLogger**> KernelContext_GetLogger{};
inline constexpr ApiCall<247, const OrtLogger*, int, const char*, const char*, int, const char*>
    Logger_LogMessage{};
inline constexpr ApiCall<253, const OrtKernelContext*, const OrtMemoryInfo*, OrtAllocator**>
    KernelContext_GetAllocator{};
inline constexpr ApiCall<274, const OrtKernelContext*, void (*)(void*, std::size_t), std::size_t,
                         std::size_t, void*>
    KernelContext_ParallelFor{};
inline constexpr ApiCall<90, const OrtKernelContext*, std::size_t, const OrtValue**>
    KernelContext_GetInput{};
inline constexpr ApiCall<91, OrtKernelContext*, std::size_t, const std::int64_t*, std::size_t,
                         OrtValue**>
    KernelContext_GetOutput{};

// Execution provider libraries, from 1.22 on.
inline constexpr ApiFunction<297, const char*(const OrtKeyValuePairs*, const char*)> GetKeyValue{};
inline constexpr ApiCall<301, OrtEnv*, const char*, const char*> RegisterExecutionProviderLibrary{};
inline constexpr ApiCall<303, const OrtEnv*, const OrtEpDevice* const**, std::size_t*>
    GetEpDevices{};
inline constexpr ApiCall<304, OrtSessionOptions*, OrtEnv*, const OrtEpDevice* const*, std::size_t,
                         const char* const*, const char* const*, std::size_t>
    SessionOptionsAppendExecutionProvider_V2{};
inline constexpr ApiFunction<312, const char*(const OrtEpDevice*)> EpDevice_EpName{};
inline constexpr ApiFunction<314, const OrtKeyValuePairs*(const OrtEpDevice*)>
    EpDevice_EpMetadata{};

}  // namespace opgraft::ort
