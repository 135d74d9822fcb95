// A case as it is run in one runtime: its models, its runs, and what was said of its shapes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comparison.h"
#include "model_writer.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"
#include "opgraft/testing.h"
#include "runtime_session.h"
#include "ways.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// What it is made from must outlive it.
class Trial {
 public:
  /// `plan` has the operator and its attributes.
  Trial(const TestRuntime& runtime, ModelPlan plan, const std::vector<OpTester::Value>& inputs,
        const std::vector<OpTester::Value>& outputs);

  /// The operator of a pack; nullptr where it is another's.
  const OpgraftOperator* declaration() const { return declaration_; }

  /// Those that the operator has a kernel for that takes the types of the inputs; the CPU where
  /// it is not a pack's.
  Devices FindDevices() const;

  /// The model of one way, and what its symbols stand for.
  ModelPlan Plan(const Way& way, Symbols* symbols) const;
  /// Opens the model with the types of its outputs left open or, where the runtime cannot infer
  /// them, given.
  Status Open(ModelPlan plan, SessionKind kind, std::unique_ptr<TestSession>* session) const;
  /// Runs one way; an error of the runtime is returned, all else is added to the findings. `came`
  /// gets the outputs that are not omitted.
  Status Run(const Way& way, std::vector<TensorValue>* came, Findings* findings) const;
  /// Asks the operator's own rule what it says of the shapes that came.
  void CheckRule(const std::vector<TensorValue>& came, Findings* findings) const;

 private:
  /// `time` stands before what is found in a second run.
  void CompareOutputs(const std::string& way, const std::string& time,
                      const std::vector<TensorValue>& got, Findings* findings) const;
  void CheckInferred(const Way& way, const TestSession& session, const Symbols& symbols,
                     const std::vector<TensorValue>& got, Findings* findings) const;

  const TestRuntime& runtime_;
  ModelPlan plan_;
  const std::vector<OpTester::Value>& inputs_;
  const std::vector<OpTester::Value>& outputs_;
  const OpgraftOperator* const declaration_;
  std::vector<std::string> output_names_;
};

}  // namespace opgraft::op_test
#pragma GCC visibility pop
