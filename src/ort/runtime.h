// A runtime that is new enough: its table of functions, and what its version has.
#pragma once

#include <climits>
#include <compare>
#include <cstdio>
#include <string>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

struct Runtime {
  const OrtApi* api = nullptr;
  int minor = 0;  ///< of its version 1.minor.patch; beyond all others for a version 2

  /// GetTensorElementTypeAndShapeDataReference is there.
  bool LendsShapes() const { return minor >= 24; }

  auto operator<=>(const Runtime&) const = default;

  /// An UnavailableError names the version of one that is too old; its `api` can make a status.
  static Status Find(const OrtApiBase* base, Runtime* runtime) {
    constexpr int kOldestMinor = 19;
    const std::string version = GetVersionString(base);
    int major = 0;
    std::sscanf(version.c_str(), "%d.%d", &major, &runtime->minor);
    if (major > 1) runtime->minor = INT_MAX;
    const bool is_new_enough = runtime->minor >= kOldestMinor;
    runtime->api = GetApi(base, is_new_enough ? kApiVersion : 1);
    if (is_new_enough && runtime->api != nullptr) return Status();
    return Status::Unavailable("Opgraft needs ONNX Runtime 1." + std::to_string(kOldestMinor) +
                               " or newer, this one is " + version);
  }
};

}  // namespace opgraft::ort
