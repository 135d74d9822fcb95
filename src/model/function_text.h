// Reads a function in ONNX's textual syntax.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::model {

struct FunctionText {
  std::string bytes;                 ///< a FunctionProto
  std::vector<bool> is_required;     ///< for each input
  std::set<std::string> attributes;  ///< the names of all
};

/// Reads a function from a subset of ONNX's syntax, which the bodies of its operators need, with
/// "?" behind an optional input:
///
///     Name <alpha: float = 1.0, axes> (x, optional?) => (y)
///     {
///        scale = Constant <value_float: float = @alpha> ()
///        half = Constant <value: tensor = float[1] {0.5}> ()
///        y = If (x) <then_branch: graph = yes () => (one) { one = Identity (scale) }, ...>
///     }
///
/// A name in angle brackets without a value is an attribute without a default. "" is an input or
/// output that is absent. Each node is named after its first output. Texts come from Opgraft, never
/// from a model; a plain Error says where one is wrong.
Status ReadFunctionText(std::string_view text, FunctionText* function);

}  // namespace opgraft::model
