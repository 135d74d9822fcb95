// Which of ONNX's operators give the right result when they run in a wider type.
#pragma once

#include <string_view>
#include <vector>

#include "model/node_parts.h"
#include "model/type_inference.h"

namespace opgraft::model {

/// The types that a node may run in instead of its own; 0 if those types stay.
struct Wider {
  ValueType floats = 0;    ///< instead of float16 and bfloat16
  ValueType integers = 0;  ///< instead of narrower integers

  /// Returns the type that a value gets; its own if it does not change.
  ValueType Of(ValueType type) const;
};

/// What is known about an operator.
struct Widening {
  bool floats = false;    ///< it may run in a wider type of floats
  bool integers = false;  ///< and of integers
  /// It only moves elements, so that its result is as precise as its inputs.
  bool moves = false;
  /// A small difference of an input can make a large one of the result, so that its inputs must
  /// have the values that they have in their own type.
  bool needs_rounded = false;
  /// Its result does not depend on the elements of its input, but only on the shape.
  bool reads_shape = false;
};

Widening WideningOf(const NodeParts& node);

/// Returns the types in which a node may run instead of the types of its inputs and outputs, best
/// first. The result, rounded to its own type, is what ONNX says, for integers bit by bit.
std::vector<Wider> WiderTypes(const NodeParts& node, const std::vector<ValueType>& inputs,
                              const std::vector<ValueType>& outputs);

/// Whether a wider type holds all values of this one.
bool HasWider(ValueType type);

}  // namespace opgraft::model
