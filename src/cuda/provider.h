// The execution provider of one session: which nodes it takes, and the services for its kernels.
#pragma once

#include <atomic>

#include "adapter/cuda_services.h"
#include "adapter/runtime.h"
#include "cuda/gpu.h"
#include "cuda/tables.h"

namespace opgraft::cuda {

class Provider : public ort::CudaProvider {
 public:
  /// `registry` has the kernels that copy. It and the GPU must outlive the provider.
  Provider(const ort::Runtime& runtime, Gpu& gpu, const OrtKernelRegistry* registry);
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  OrtEp* ep() { return reinterpret_cast<OrtEp*>(static_cast<ort::CudaProvider*>(this)); }
  static void Delete(OrtEp* ep) { delete &Self(ep); }

 private:
  static Provider& Self(OrtEp* ep) {
    return static_cast<Provider&>(*reinterpret_cast<ort::CudaProvider*>(ep));
  }
  static const Provider& Self(const ort::CudaProvider* provider) {
    return static_cast<const Provider&>(*provider);
  }
  Status TakeNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support) const;
  Status EndRun(bool must_wait);
  /// Returns the stream of the run that this thread is in; the default stream if the runtime runs
  /// nodes in parallel, in threads of its own.
  KnownStream CurrentStream() const;

  const ort::Runtime runtime_;
  Gpu& gpu_;
  const OrtKernelRegistry* const registry_;
  mutable std::atomic<bool> has_side_work_ = false;
};

}  // namespace opgraft::cuda
