// A case in one runtime: its models, its runs, and the check of its inferred shapes.
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

/// The constructor's arguments must outlive it.
class Trial {
 public:
  /// `plan` contains the operator and its attributes.
  Trial(const TestRuntime& runtime, ModelPlan plan, const std::vector<OpTester::Value>& inputs,
        const std::vector<OpTester::Value>& outputs);

  /// The declaration of the operator; nullptr if it does not belong to a pack.
  const OpgraftOperator* declaration() const { return declaration_; }

  /// Returns the devices for which the operator has a kernel that takes the types of the inputs;
  /// the CPU if the operator does not belong to a pack.
  Devices FindDevices() const;

  /// Returns the model of one way, and the sizes that its symbols stand for.
  ModelPlan Plan(const Way& way, Symbols* symbols) const;
  /// Opens the model without the types of its outputs or, if the runtime cannot infer them, with
  /// them.
  Status Open(ModelPlan plan, SessionKind kind, std::unique_ptr<TestSession>* session) const;
  /// Runs one way. Returns errors of the runtime, and adds everything else to the findings.
  /// `results` gets the outputs that are not omitted.
  Status Run(const Way& way, std::vector<TensorValue>* results, Findings* findings) const;
  /// Compares the operator's own shape rule with the shapes of the results.
  void CheckRule(const std::vector<TensorValue>& results, Findings* findings) const;

 private:
  /// `time` is the prefix of findings in a second run.
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
