// An ONNX Runtime that is new enough: its table of functions, and what its version supports.
#pragma once

#include <compare>
#include <string>

#include "base/runtime_version.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

struct Runtime {
  const OrtApi* api = nullptr;
  RuntimeVersion version;

  /// Whether it has GetTensorElementTypeAndShapeDataReference.
  bool LendsShapes() const { return version >= RuntimeVersion{1, 24, 0}; }

  /// Whether ReadOpAttr counts a terminating zero of a text.
  bool TerminatesTexts() const { return version < RuntimeVersion{1, 23, 0}; }

  /// Whether it has KernelInfoGetAttributeArray_string.
  bool HandsOverTexts() const { return version >= RuntimeVersion{1, 25, 0}; }

  /// Whether shape inference functions are safe for any model. Before 1.24 they crash for a node
  /// with absent inputs, before 1.28 if they set an output that the node does not have.
  bool InfersShapes() const { return version >= RuntimeVersion{1, 28, 0}; }

  auto operator<=>(const Runtime&) const = default;

  /// Returns an UnavailableError that names the version if it is too old; even then `api` can
  /// create a status.
  static Status Find(const OrtApiBase* base, Runtime* runtime) {
    runtime->version = RuntimeVersion::Parse(GetVersionString(base));
    const bool is_new_enough = runtime->version >= kOldestRuntime;
    runtime->api = GetApi(base, is_new_enough ? kApiVersion : 1);
    if (is_new_enough && runtime->api != nullptr) return Status();
    return Status::Unavailable("Opgraft needs ONNX Runtime 1.19 or newer, this one is " +
                               std::string(GetVersionString(base)));
  }
};

}  // namespace opgraft::ort
