// Converts the result of a call of ONNX Runtime to a Status.
#pragma once

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// Releases `returned`.
inline Status ToStatus(const OrtApi* api, OrtStatus* returned) {
  if (returned == nullptr) return Status();
  Status status = Status::Error(ort::GetErrorMessage(api, returned));
  ort::ReleaseStatus(api, returned);
  return status;
}

}  // namespace opgraft::op_test
#pragma GCC visibility pop
