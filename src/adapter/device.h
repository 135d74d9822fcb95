// The device of a kernel for a GPU: our own provider, or ONNX Runtime's CUDAExecutionProvider.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "adapter/cuda_services.h"
#include "adapter/runtime.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// The provider of ONNX Runtime's own CUDA build.
inline constexpr char kRuntimeCudaProvider[] = "CUDAExecutionProvider";

/// Returns the error for an operator that needs a GPU in a session without one; `what` names the
/// operator and says that it needs a GPU.
Status GpuMissing(const Runtime& runtime, const std::string& what);

/// Thread-safe.
class Device {
 public:
  /// Finds the device of a node that runs on one of the two providers.
  static Status Find(const Runtime& runtime, const OrtKernelInfo* info,
                     std::unique_ptr<Device>* device);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  /// Returns the stream of the run: a kernel must submit all its work to it.
  Status Stream(OrtKernelContext* context, void** stream) const;
  /// Allocates memory for work on that stream; returns an error if there is not enough.
  Status Allocate(std::size_t bytes, void** memory) const;
  /// Must be called by the thread that allocated. Work on the stream may still use the memory.
  void Free(void* memory) const;

  /// nullptr if the node runs on ONNX Runtime's own provider.
  const CudaProvider* provider() const { return provider_; }

 private:
  Device(const Runtime& runtime, const CudaProvider* provider, OrtAllocator* allocator)
      : runtime_(runtime), provider_(provider), allocator_(allocator) {}

  const Runtime runtime_;
  const CudaProvider* const provider_;
  OrtAllocator* const allocator_;  ///< used if provider_ is nullptr
};

}  // namespace opgraft::ort
