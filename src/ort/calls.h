// Calls between ONNX Runtime and us: errors on their way in and out, texts that it hands over.
#pragma once

#include <exception>
#include <string>

#include "core/stack.h"
#include "core/text.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// nullptr for OK, else a status of the runtime's whose text carries ours.
inline OrtStatus* ToRuntime(const OrtApi* api, const Status& status) {
  return status.ok() ? nullptr : CreateStatus(api, kFail, Readable(status.ToString()).c_str());
}

/// What a call of the runtime returned; releases it. Our own errors come back as they went in, the
/// runtime's as a plain error.
inline Status FromRuntime(const OrtApi* api, OrtStatus* returned) {
  if (returned == nullptr) return Status();
  const std::string text = GetErrorMessage(api, returned);
  ReleaseStatus(api, returned);
  Status status = Status::FindIn(text);
  return status.ok() ? Status::Error(text) : status;
}

/// Reads a text by `get(buffer, &size)`, which tells the size first, the terminating zero included.
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

/// Calls `body`, which returns a Status, where ONNX Runtime called us: no exception gets past.
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
