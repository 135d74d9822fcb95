// Rescues a model that the runtime has refused: nodes without a kernel for their types run in wider
// types, with Casts at the borders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/kernel_probe.h"
#include "model/rescue.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// A node that cannot run.
struct Refused {
  std::string node;           ///< the node's name, or its operator and first output
  std::string operator_name;  ///< "Add"
  std::string reason;         ///< "ONNX Runtime has no kernel for uint64, which has no wider type"
};

struct IslandsRequest {
  std::string_view model;                 ///< prepared for the runtime
  std::string_view origin;                ///< what messages call it
  std::string_view runtime_version = {};  ///< "1.31.1"
  /// The opset of ONNX's own domain that the model was written for, if it has been lowered.
  std::int64_t written_opset = 0;
  /// The name of the file that holds `model`, if large weights may become references into it.
  std::string_view file_name = {};
  /// Whether the result of each node is rounded to its own type, as ONNX says. Otherwise
  /// neighbouring nodes pass on what they have computed in the wider type.
  bool rounds_each = false;
  KernelProbe* probe = nullptr;
};

struct Islands {
  /// The model for the runtime; empty if nothing can be changed for the better.
  std::string bytes;
  /// Some weights in `bytes` are references into the file.
  bool refers_to_file = false;
  std::vector<Rescue> rescues;
  std::vector<Refused> refused;
};

/// Whatever the bytes are, the result is at worst a ModelError; or a plain Error if the version is
/// invalid, or if there is not enough memory.
Status MakeIslands(const IslandsRequest& request, Islands* islands);

/// Says in a sentence or two why the model cannot run; "" if nothing was refused.
std::string WhyRefused(const std::vector<Refused>& refused, std::string_view runtime_version);

}  // namespace opgraft::model
