// Turns a model as its author wrote it into one that stock ONNX Runtime accepts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/operator_source.h"
#include "model/python_spec.h"
#include "model/rescue.h"
#include "opgraft/status.h"

namespace opgraft::model {

struct PreparedModel {
  /// The model for the runtime; empty if the original can be used as it is.
  std::string bytes;
  /// Some of the original's weights are in files beside it.
  bool has_external_data = false;
  /// Some weights in `bytes` are references into the original's file.
  bool refers_to_original = false;
  /// The runtime finds the external data only if the prepared model is a file beside them, opened
  /// by its path.
  bool needs_file = false;
  /// The Python operators that the model will run, if the policy allows them; without their
  /// arguments and the shapes of their outputs, which may be large.
  std::vector<pyop::Spec> python_operators;
  /// The operators of packs that the model will run: full names, and the packs.
  std::map<std::string, std::string> native_operators;
  /// The ATen operators that the model will run, "aten::name" or "aten::name.overload".
  std::set<std::string> aten_operators;
  /// The nodes that the runtime cannot run as they are, and what stands in for each.
  std::vector<Rescue> rescues;
  /// If the model was refused because operators have changed: the newest opset of the default
  /// domain that the runtime supports, for a host that can convert the model. Otherwise 0.
  std::int64_t opset_limit = 0;
};

/// Prepares `model` for ONNX Runtime `runtime_version` (such as "1.31.1"). Messages name the model
/// as `origin`. `operators` finds the schemas of declared operators. Whatever the bytes are, the
/// result is at worst a ModelError or an error of `operators`. It is a plain Error if the version
/// is invalid or too old, or if there is not enough memory. If `file_name` names the file that
/// holds `model`, large weights of a model that must be changed may become references into that
/// file. `inlines_functions`: all functions of the model are inlined, and not only those that must
/// be.
Status Prepare(std::string_view model, std::string_view origin, std::string_view runtime_version,
               OperatorSource& operators, PreparedModel* prepared, std::string_view file_name = {},
               bool inlines_functions = false);

}  // namespace opgraft::model
