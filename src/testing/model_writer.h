// Writes ONNX models of one operator, byte by byte, so that tests need no protobuf.
#pragma once

#include <string>
#include <vector>

#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// How a value stands in a model.
struct ModelValue {
  std::string name;  ///< empty: omitted
  std::int32_t element_type = 0;
  OpTester::Shape shape;
  const TensorValue* initializer = nullptr;
};

struct ModelPlan {
  std::string domain;
  std::string operator_name;
  int version = 1;
  std::vector<ModelValue> inputs = {};
  /// Outputs whose types are left open unless `are_outputs_typed`; their shapes always are.
  std::vector<ModelValue> outputs = {};
  std::vector<OpTester::Attribute> attributes = {};
  bool are_outputs_typed = false;
  /// The node stands between others, which give its inputs and take its outputs.
  bool is_between = false;
  /// The model gives the shapes of the outputs too: "<name>/shape", as its operator Shape sees
  /// them.
  bool asks_shapes = false;
};

/// What the shape of an output is called where the model asks for it.
inline std::string ShapeName(const std::string& output) { return output + "/shape"; }

std::string WriteModel(const ModelPlan& plan);

}  // namespace opgraft::op_test
#pragma GCC visibility pop
