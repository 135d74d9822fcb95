// Calls between ONNX Runtime and Opgraft: errors in both directions, and strings from the runtime.
#pragma once

#include <exception>
#include <string>

#include "base/stack.h"
#include "base/text.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// Returns nullptr for OK, else a status of the runtime whose text contains ours.
inline OrtStatus* ToRuntime(const OrtApi* api, const Status& status) {
  return status.ok() ? nullptr : CreateStatus(api, kFail, Readable(status.ToString()).c_str());
}

/// Converts and releases what a call of the runtime returned. Our own errors are restored as they
/// were, errors of the runtime become plain errors.
inline Status FromRuntime(const OrtApi* api, OrtStatus* returned) {
  if (returned == nullptr) return Status();
  const std::string text = GetErrorMessage(api, returned);
  ReleaseStatus(api, returned);
  Status status = Status::FindIn(text);
  return status.ok() ? Status::Error(text) : status;
}

/// Reads a text by two calls of `get(buffer, &size)`; the first gives the size, including the
/// terminating zero.
template <class Getter>
Status ReadText(const OrtApi* api, const Getter& get, std::string* text) {
  std::size_t size = 0;
  Status status = FromRuntime(api, get(nullptr, &size));
  if (!status.ok()) return status;
  text->resize(size);
  status = FromRuntime(api, get(text->data(), &size));
  if (!text->empty()) text->pop_back();
  return status;
}

/// Calls `body`, which returns a Status, inside a call from ONNX Runtime: no exception escapes.
template <class Body>
OrtStatus* Guarded(const OrtApi* api, Body body) noexcept {
  try {
    const NestedCall call;
    const Status status = NestedCall::Check();
    return ToRuntime(api, status.ok() ? body() : status);
  } catch (const std::exception& exception) {
    return ToRuntime(api, Status::Error(exception.what()));
  } catch (...) {
    return CreateStatus(api, kFail, "opgraft.Error: an unknown C++ exception");
  }
}

}  // namespace opgraft::ort
