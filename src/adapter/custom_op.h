// The OrtCustomOp struct: how ONNX Runtime asks a custom operator about itself and runs it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "opgraft/onnxruntime.h"

namespace opgraft::ort {

/// OrtCustomOp, with its members in order. Functions may be nullptr where ONNX Runtime allows it.
/// Element types are values of ONNXTensorElementDataType, 0 for any type.
struct CustomOpTable {
  std::uint32_t version = kApiVersion;
  void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*) = nullptr;
  const char* (*GetName)(const OrtCustomOp*) = nullptr;
  const char* (*GetExecutionProviderType)(const OrtCustomOp*) = nullptr;
  int (*GetInputType)(const OrtCustomOp*, std::size_t) = nullptr;
  std::size_t (*GetInputTypeCount)(const OrtCustomOp*) = nullptr;
  int (*GetOutputType)(const OrtCustomOp*, std::size_t) = nullptr;
  std::size_t (*GetOutputTypeCount)(const OrtCustomOp*) = nullptr;
  void (*KernelCompute)(void*, OrtKernelContext*) = nullptr;
  void (*KernelDestroy)(void*) = nullptr;
  int (*GetInputCharacteristic)(const OrtCustomOp*, std::size_t) = nullptr;
  int (*GetOutputCharacteristic)(const OrtCustomOp*, std::size_t) = nullptr;
  int (*GetInputMemoryType)(const OrtCustomOp*, std::size_t) = nullptr;
  int (*GetVariadicInputMinArity)(const OrtCustomOp*) = nullptr;
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*) = nullptr;
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*) = nullptr;
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*) = nullptr;
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*,
                               void**) = nullptr;
  OrtStatus* (*KernelComputeV2)(void*, OrtKernelContext*) = nullptr;
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*) = nullptr;
  int (*GetStartVersion)(const OrtCustomOp*) = nullptr;
  int (*GetEndVersion)(const OrtCustomOp*) = nullptr;
  std::size_t (*GetMayInplace)(int**, int**) = nullptr;
  void (*ReleaseMayInplace)(int*, int*) = nullptr;
  std::size_t (*GetAliasMap)(int**, int**) = nullptr;
  void (*ReleaseAliasMap)(int*, int*) = nullptr;
};
static_assert(sizeof(CustomOpTable) == 26 * sizeof(void*));

/// Values of OrtCustomOpInputOutputCharacteristic.
inline constexpr int kRequired = 0;
inline constexpr int kOptional = 1;
inline constexpr int kVariadic = 2;  ///< a list of any length

}  // namespace opgraft::ort
