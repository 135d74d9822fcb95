// Calls an operator's own shape rule, through the C function of its pack.
#pragma once

#include <string>
#include <vector>

#include "model_writer.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"
#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// The result of a rule for one output; `is_told` is false if the rule has not set it.
struct ToldShape {
  bool is_told = false;
  std::int32_t element_type = 0;
  OpTester::Shape shape;
};

/// Calls the rule; initializers are constants for it. `told` gets one entry for each output of the
/// plan.
Status AskRule(const OpgraftOperator& declaration, const ModelPlan& plan,
               std::vector<ToldShape>* told);

}  // namespace opgraft::op_test
#pragma GCC visibility pop
