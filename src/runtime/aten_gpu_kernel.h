// The kernel of an ATen node on a GPU: libtorch works in the runtime's memory and on the run's
// stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "adapter/device.h"
#include "adapter/runtime.h"
#include "aten/call.h"
#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// Thread-safe: the runtime's runs may overlap.
class AtenGpuKernel {
 public:
  /// Like AtenKernel::Create. Operators that run on the CPU do not need libtorch's part for CUDA.
  static Status Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                       std::unique_ptr<AtenGpuKernel>* kernel);

  Status Compute(OrtKernelContext* context) const;

  const OrtApi* api() const { return runtime_.api; }

 private:
  AtenGpuKernel(const Runtime& runtime, std::size_t inputs, std::size_t outputs)
      : runtime_(runtime), inputs_(inputs), outputs_(outputs) {}

  Status RunOnGpu(OrtKernelContext* context, std::span<aten::InputTensor> inputs,
                  bool* lacks_kernel) const;
  /// Runs the operator on the CPU, on copies in host memory.
  Status RunOnHost(OrtKernelContext* context, std::span<aten::InputTensor> inputs) const;

  const Runtime runtime_;
  const std::size_t inputs_;
  const std::size_t outputs_;
  std::string who_;
  std::unique_ptr<Device> device_;
  aten::Gpu gpu_;
  std::unique_ptr<const aten::Call> gpu_call_;  ///< nullptr if the operator runs on the CPU
  std::unique_ptr<const aten::Call> host_call_;
  mutable std::atomic<bool> lacks_kernel_ = false;  ///< libtorch has reported in a run that it does
};

}  // namespace opgraft::ort
