// The kernel of an ATen node on a GPU: libtorch works on the runtime's memory, on the run's stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "aten/call.h"
#include "core/policy.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/device.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// Thread-safe: the runtime's runs may overlap.
class AtenGpuKernel {
 public:
  /// As that of the CPU. Operators that libtorch has no kernel of CUDA for need no part of libtorch
  /// for it.
  static Status Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                       std::unique_ptr<AtenGpuKernel>* kernel);

  Status Compute(OrtKernelContext* context) const;

  const OrtApi* api() const { return runtime_.api; }

 private:
  AtenGpuKernel(const Runtime& runtime, std::size_t inputs, std::size_t outputs)
      : runtime_(runtime), inputs_(inputs), outputs_(outputs) {}

  Status RunOnGpu(OrtKernelContext* context, std::span<aten::InputTensor> inputs,
                  bool* lacks_kernel) const;
  /// On copies in the memory of the host.
  Status RunOnHost(OrtKernelContext* context, std::span<aten::InputTensor> inputs) const;

  const Runtime runtime_;
  const std::size_t inputs_;
  const std::size_t outputs_;
  std::string who_;
  std::unique_ptr<Device> device_;
  aten::Gpu gpu_;
  std::unique_ptr<const aten::Call> gpu_call_;  ///< nullptr where it runs on the host
  std::unique_ptr<const aten::Call> host_call_;
  mutable std::atomic<bool> lacks_kernel_ = false;  ///< as libtorch has said in a run
};

}  // namespace opgraft::ort
