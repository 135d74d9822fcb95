// Writes ONNX models of one operator without protobuf.
#pragma once

#include <string>
#include <vector>

#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// An input or output of the model.
struct ModelValue {
  std::string name;  ///< empty if it is omitted
  std::int32_t element_type = 0;
  OpTester::Shape shape;
  const TensorValue* initializer = nullptr;
};

struct ModelPlan {
  std::string domain;
  std::string operator_name;
  int version = 1;
  std::vector<ModelValue> inputs = {};
  /// Their types are only written if `are_outputs_typed`; their shapes never are.
  std::vector<ModelValue> outputs = {};
  std::vector<OpTester::Attribute> attributes = {};
  bool are_outputs_typed = false;
  /// The node is placed between other nodes, which produce its inputs and consume its outputs.
  bool is_between = false;
  /// The model has additional outputs "<name>/shape": the shapes of the outputs, from the operator
  /// Shape.
  bool asks_shapes = false;
};

/// Returns the name of the additional output with the shape of an output.
inline std::string ShapeName(const std::string& output) { return output + "/shape"; }

std::string WriteModel(const ModelPlan& plan);

}  // namespace opgraft::op_test
#pragma GCC visibility pop
