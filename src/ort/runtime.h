// A runtime that is new enough: its table of functions, and what its version has.
#pragma once

#include <compare>
#include <string>

#include "core/runtime_version.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

struct Runtime {
  const OrtApi* api = nullptr;
  RuntimeVersion version;

  /// GetTensorElementTypeAndShapeDataReference is there.
  bool LendsShapes() const { return version >= RuntimeVersion{1, 24, 0}; }

  /// ReadOpAttr counts a zero behind a text.
  bool TerminatesTexts() const { return version < RuntimeVersion{1, 23, 0}; }

  /// KernelInfoGetAttributeArray_string is there.
  bool HandsOverTexts() const { return version >= RuntimeVersion{1, 25, 0}; }

  /// A shape inference function is safe whatever a model holds. Before 1.24 one crashes for a node
  /// with absent inputs, before 1.28 where it sets an output that the node does not have.
  bool InfersShapes() const { return version >= RuntimeVersion{1, 28, 0}; }

  auto operator<=>(const Runtime&) const = default;

  /// An UnavailableError names the version of one that is too old; its `api` can make a status.
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
