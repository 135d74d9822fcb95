// From a model as its author wrote it to one that stock ONNX Runtime accepts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/operator_source.h"
#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::model {

struct PreparedModel {
  /// The model to hand to the runtime; empty where the original serves as it is.
  std::string bytes;
  /// Some of the original's weights lie in files beside it.
  bool has_external_data = false;
  /// Some weights in `bytes` are references into the original's file.
  bool refers_to_original = false;
  /// The runtime finds those only if the prepared model is a file beside them, opened by its path.
  bool needs_file = false;
  /// The Python operators that it will run, where the policy lets it; without their arguments and
  /// the shapes of their outputs, which may be large.
  std::vector<pyop::Spec> python_operators;
  /// The operators of packs that it will run, by their full names, and the packs.
  std::map<std::string, std::string> native_operators;
  /// The operators of ATen that it will run, "aten::name" or "aten::name.overload".
  std::set<std::string> aten_operators;
  /// Where it was refused because operators have changed since: the newest opset of the default
  /// domain that the runtime takes, for a host that can convert the model. Else 0.
  std::int64_t opset_limit = 0;
};

/// Prepares `model` for ONNX Runtime `runtime_version` (such as "1.31.1"). Messages name the model
/// as `origin`; `operators` tells which nodes run operators that were declared. Whatever the bytes
/// are, nothing worse than a ModelError happens, or an error of `operators`; a version that is
/// none, or too old, is a plain error, and so is a lack of memory. With the name of the file that
/// holds `model`, large weights of a model that must be changed may be references into it.
Status Prepare(std::string_view model, std::string_view origin, std::string_view runtime_version,
               OperatorSource& operators, PreparedModel* prepared, std::string_view file_name = {});

}  // namespace opgraft::model
