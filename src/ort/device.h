// What a kernel for a GPU runs on: our own provider, or ONNX Runtime's CUDAExecutionProvider.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/cuda_services.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// The provider of ONNX Runtime's own CUDA build.
inline constexpr char kRuntimeCudaProvider[] = "CUDAExecutionProvider";

/// The error of an operator that needs a GPU where the session has none; `what` says who it is and
/// that it needs one.
Status GpuMissing(const Runtime& runtime, const std::string& what);

/// Thread-safe.
class Device {
 public:
  /// The device of a node that one of the two has.
  static Status Find(const Runtime& runtime, const OrtKernelInfo* info,
                     std::unique_ptr<Device>* device);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  /// Of the run: all work of a kernel goes to it.
  Status Stream(OrtKernelContext* context, void** stream) const;
  /// For work on that stream; an error where there is not so much.
  Status Allocate(std::size_t bytes, void** memory) const;
  /// To be called by the thread that allocated; work on the stream may still go on with it.
  void Free(void* memory) const;

  /// nullptr for ONNX Runtime's own.
  const CudaProvider* provider() const { return provider_; }

 private:
  Device(const Runtime& runtime, const CudaProvider* provider, OrtAllocator* allocator)
      : runtime_(runtime), provider_(provider), allocator_(allocator) {}

  const Runtime runtime_;
  const CudaProvider* const provider_;
  OrtAllocator* const allocator_;  ///< where there is no provider of ours
};

}  // namespace opgraft::ort
