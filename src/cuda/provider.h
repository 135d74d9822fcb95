// The execution provider of one session: which nodes it takes, and what its kernels ask it for.
#pragma once

#include <atomic>

#include "cuda/gpu.h"
#include "cuda/tables.h"
#include "ort/cuda_services.h"
#include "ort/runtime.h"

namespace opgraft::cuda {

class Provider : public ort::CudaProvider {
 public:
  /// `registry` has the kernels that copy; both must outlive the provider.
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
  /// Of the run that this thread is in; the default stream where the runtime runs nodes side by
  /// side, in threads of its own.
  KnownStream CurrentStream() const;

  const ort::Runtime runtime_;
  Gpu& gpu_;
  const OrtKernelRegistry* const registry_;
  mutable std::atomic<bool> has_side_work_ = false;
};

}  // namespace opgraft::cuda
