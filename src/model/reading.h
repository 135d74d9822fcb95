// For all code that reads a model's bytes: checks the runtime version, and handles errors.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <protozero/exception.hpp>
#include <string>
#include <string_view>

#include "base/runtime_version.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The largest model that we can read, because lengths have 32 bits.
inline constexpr std::size_t kLargestReadable = 0xffffffff;

/// The largest message that protobuf, and therefore the runtime, parses.
inline constexpr std::size_t kLargestMessage = 0x7fffffff;

/// Whether the model is in the runtime's own format, which is not ONNX and needs no preparation.
inline bool IsRuntimeFormat(std::string_view model) {
  return model.size() > 8 && model.substr(4, 4) == "ORTM";
}

/// Calls `read`, which returns a Status and may throw the exceptions of reading bytes. Messages
/// name the model as `origin`, and `verb` is what was attempted, such as "prepare". Returns a plain
/// Error if the version is invalid or too old.
template <class Read>
Status ReadModel(std::string_view model, std::string_view origin, std::string_view runtime_version,
                 const std::string& verb, const Read& read) {
  if (RuntimeVersion::Parse(runtime_version) < kOldestRuntime) {
    return Status::Error("runtime: expected a version of ONNX Runtime from 1.19 on, got '" +
                         std::string(runtime_version) + "'");
  }
  if (IsRuntimeFormat(model)) return Status();
  if (model.size() > kLargestReadable) {
    return Status::Model(std::string(origin) + " has " + std::to_string(model.size()) +
                         " bytes, but protobuf takes at most 2 GB: it is not an ONNX model, or its "
                         "weights must be saved as external data");
  }
  try {
    return read();
  } catch (const protozero::exception& exception) {
    return Status::Model(std::string(origin) +
                         " is not an ONNX model, or is truncated: " + exception.what());
  } catch (const std::bad_alloc&) {
    return Status::Error("there is not enough memory to " + verb + " " + std::string(origin) +
                         ", which has " + std::to_string(model.size()) + " bytes");
  } catch (const std::exception& exception) {
    return Status::Error("cannot " + verb + " " + std::string(origin) + ": " + exception.what());
  }
}

}  // namespace opgraft::model
