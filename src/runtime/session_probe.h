// Asks ONNX Runtime for kernels by making sessions of one node.
#pragma once

#include <string>
#include <string_view>

#include "model/kernel_probe.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

class SessionProbe final : public model::KernelProbe {
 public:
  /// The sessions get the providers of `options`, but neither their threads nor their files.
  SessionProbe(const OrtApi* api, const OrtEnv* environment, const OrtSessionOptions* options);
  ~SessionProbe() override;
  SessionProbe(const SessionProbe&) = delete;
  SessionProbe& operator=(const SessionProbe&) = delete;

  /// Whether the options could be copied.
  const Status& status() const { return status_; }

  bool Loads(std::string_view model) override;

  /// Options do not tell which providers they have.
  std::string Conditions() const override { return ""; }

 private:
  const OrtApi* const api_;
  const OrtEnv* const environment_;
  OrtSessionOptions* options_ = nullptr;
  Status status_;
};

}  // namespace opgraft::ort
