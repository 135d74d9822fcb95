// What holds for every look at a model's bytes: the runtime it is for, and how it may fail.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <protozero/exception.hpp>
#include <string>
#include <string_view>

#include "core/runtime_version.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// What we can read: lengths of 32 bits.
inline constexpr std::size_t kLargestReadable = 0xffffffff;

/// The runtime's own format, which is no ONNX and holds no node that would have to be changed.
inline bool IsRuntimeFormat(std::string_view model) {
  return model.size() > 8 && model.substr(4, 4) == "ORTM";
}

/// Calls `read`, which returns a Status and may throw what reading of bytes throws. Messages name
/// the model as `origin` and say what was to be done, such as "prepare". A version that is none, or
/// too old, is a plain error.
template <class Read>
Status ReadModel(std::string_view model, std::string_view origin, std::string_view runtime_version,
                 const std::string& verb, const Read& read) {
  if (RuntimeVersion::Parse(runtime_version) < kOldestRuntime) {
    return Status::Error("runtime: expected a version of ONNX Runtime from 1.19 on, not '" +
                         std::string(runtime_version) + "'");
  }
  if (IsRuntimeFormat(model)) return Status();
  if (model.size() > kLargestReadable) {
    return Status::Model(std::string(origin) + " has " + std::to_string(model.size()) +
                         " bytes, where protobuf takes at most 2 GB: it is no ONNX model, or its "
                         "weights should lie in external data");
  }
  try {
    return read();
  } catch (const protozero::exception& exception) {
    return Status::Model(std::string(origin) +
                         " is no ONNX model, or is cut short: " + exception.what());
  } catch (const std::bad_alloc&) {
    return Status::Error("there is not enough memory to " + verb + " " + std::string(origin) +
                         ", which has " + std::to_string(model.size()) + " bytes");
  } catch (const std::exception& exception) {
    return Status::Error("cannot " + verb + " " + std::string(origin) + ": " + exception.what());
  }
}

}  // namespace opgraft::model
