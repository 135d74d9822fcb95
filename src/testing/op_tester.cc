// The functions of OpTester: they build a case, then run it in each of its ways.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "comparison.h"
#include "model_writer.h"
#include "opgraft/status.h"
#include "opgraft/testing.h"
#include "runtime_session.h"
#include "shape_inference.h"
#include "trial.h"
#include "ways.h"

namespace opgraft {
namespace op_test {
namespace {

std::size_t ElementCount(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

/// Whether a size is neither known nor an expression of known symbols.
bool IsOpen(const OpTester::Dimension& one, const Symbols& symbols) {
  return one.size < 0 && !Evaluate(one.symbol, symbols);
}

/// Compares the inferred type and shape of an output with the expected ones. A runtime gives names
/// of its own to unknown sizes, and its result may be less precise than the rule's
/// (`may_tell_less`).
std::string CompareShapes(const OpTester::Value& expected, std::int32_t type,
                          const OpTester::Shape& told, bool may_tell_less, const Symbols& symbols) {
  if (type != 0 && type != expected.tensor.element_type()) {
    return "expected " + ElementTypeText(expected.tensor.element_type()) + ", got " +
           ElementTypeText(type);
  }
  if (!told && may_tell_less) return "";
  bool is_same = told.has_value() == expected.shape.has_value() &&
                 (!told || told->size() == expected.shape->size());
  for (std::size_t i = 0; is_same && told && i < told->size(); ++i) {
    const OpTester::Dimension& one = (*told)[i];
    const OpTester::Dimension& wanted = (*expected.shape)[i];
    is_same = one == wanted || (IsOpen(one, symbols) && (may_tell_less || IsOpen(wanted, symbols)));
  }
  if (is_same) return "";
  return "expected the shape " + ShapeText(expected.shape) + ", got " + ShapeText(told);
}

/// Returns the devices that a case is run on, and why the GPU is not one of them although its
/// operator has a kernel for it.
std::pair<Devices, std::string> ChooseDevices(const TestRuntime& runtime, const Trial& trial,
                                              bool is_cuda_excluded) {
  Devices devices = trial.FindDevices();
  if (!devices.gpu) return {devices, ""};
  std::string reason = is_cuda_excluded ? "the case excludes it" : "";
  if (!is_cuda_excluded) {
    const OrtEpDevice* gpu = nullptr;
    reason = runtime.FindGpu(&gpu).message();
    if (reason.empty()) return {devices, ""};
  }
  devices.gpu = false;
  return {devices, is_cuda_excluded && devices.cpu ? "" : reason};
}

/// Prints the reason once for each operator.
void TellUntested(const std::string& who, const std::string& reason) {
  static auto* const told = new std::set<std::string>;
  if (!told->insert(who).second) return;
  std::printf("OpTester: %s has a kernel for CUDA, which is not tested here: %s\n", who.c_str(),
              reason.c_str());
}

}  // namespace
}  // namespace op_test

OpTester::OpTester(std::string_view name, int version, std::string_view domain)
    : domain_(domain), name_(name), version_(version) {
  if (const std::size_t colon = name.rfind("::"); colon != std::string_view::npos) {
    domain_ = name.substr(0, colon);
    name_ = name.substr(colon + 2);
  }
  if (domain_ == "ai.onnx") domain_.clear();
}

OpTester& OpTester::Add(std::vector<Value>* values, std::string name, Shape shape,
                        TensorValue tensor, bool is_constant) {
  const bool has_elements =
      tensor.element_type() != 0 &&
      std::ranges::none_of(tensor.shape(), [](auto size) { return size < 0; });
  if (has_elements) {
    const std::size_t count =
        tensor.element_type() == kElementType<std::string>
            ? tensor.strings().size()
            : tensor.bytes().size() / op_test::ElementSize(tensor.element_type());
    const std::size_t expected = op_test::ElementCount(tensor.shape());
    if (count != expected) {
      mistakes_.push_back("'" + name + "' has the shape " + op_test::ShapeText(shape) + " and " +
                          std::to_string(count) + " elements, not " + std::to_string(expected));
    }
  } else if (!tensor.shape().empty() && tensor.shape().front() != -1) {
    mistakes_.push_back("'" + name + "' has a negative size");
  }
  for (const std::vector<Value>* const others : {&inputs_, &outputs_}) {
    for (const Value& other : *others) {
      if (!name.empty() && other.name == name) {
        mistakes_.push_back("two inputs or outputs are called '" + name + "'");
      }
    }
  }
  values->push_back({std::move(name), std::move(shape), std::move(tensor), has_elements,
                     is_constant, std::nullopt});
  return *this;
}

OpTester& OpTester::AddAttributeValue(std::string name, AttributeValue value) {
  attributes_.push_back({std::move(name), std::move(value)});
  return *this;
}

OpTester::Tolerance* OpTester::ToleranceOf(std::string_view output) {
  for (Value& value : outputs_) {
    if (value.name != output || output.empty()) continue;
    if (!value.tolerance) value.tolerance = op_test::DefaultTolerance(value.tensor.element_type());
    return &*value.tolerance;
  }
  mistakes_.push_back("a tolerance is set for '" + std::string(output) +
                      "', but no such output has been added");
  return nullptr;
}

OpTester& OpTester::SetTolerance(double absolute, double relative) {
  if (outputs_.empty()) mistakes_.emplace_back("a tolerance is set, but no output has been added");
  for (Value& value : outputs_) value.tolerance = {absolute, relative};
  return *this;
}

OpTester& OpTester::SetOutputTolerance(std::string_view output, double absolute, double relative) {
  if (Tolerance* const tolerance = ToleranceOf(output)) *tolerance = {absolute, relative};
  return *this;
}

OpTester& OpTester::SetOutputAbsErr(std::string_view output, float absolute) {
  if (Tolerance* const tolerance = ToleranceOf(output)) tolerance->absolute = absolute;
  return *this;
}

OpTester& OpTester::SetOutputRelErr(std::string_view output, float relative) {
  if (Tolerance* const tolerance = ToleranceOf(output)) tolerance->relative = relative;
  return *this;
}

std::vector<std::string> OpTester::Check(ExpectResult expected, std::string_view text) const {
  Outcome outcome = Try(expected, text);
  if (!outcome.skipped.empty()) outcome.problems.push_back(std::move(outcome.skipped));
  return outcome.problems;
}

OpTester::Outcome OpTester::Try(ExpectResult expected, std::string_view text) const {
  using namespace op_test;  // NOLINT(google-build-using-namespace): its own parts
  const std::string who = (domain_.empty() ? "" : domain_ + "::") + name_;
  std::vector<std::string> mistakes = mistakes_;
  for (const std::vector<Value>* const values : {&inputs_, &outputs_}) {
    for (const Value& value : *values) {
      if (!value.name.empty() && !value.has_elements) {
        mistakes.push_back("'" + value.name + "' has no elements, which only InferShapes allows");
      }
    }
  }
  if (std::ranges::all_of(outputs_, [](const Value& value) { return value.name.empty(); })) {
    mistakes.emplace_back("no output was added; a case that should fail needs outputs too");
  }
  for (std::string& mistake : mistakes) mistake = who + ": the case is wrong: " + mistake;
  if (!mistakes.empty()) return {std::move(mistakes), ""};

  const TestRuntime* runtime = nullptr;
  if (const Status status = TestRuntime::Find(&runtime); !status.ok()) {
    return {{status.message()}, ""};
  }
  ModelPlan plan{.domain = domain_, .operator_name = name_, .version = version_};
  plan.attributes = attributes_;
  const Trial trial(*runtime, std::move(plan), inputs_, outputs_);
  const auto [devices, untested] = ChooseDevices(*runtime, trial, is_cuda_excluded_);
  if (!devices.cpu && !devices.gpu) {
    return {{}, who + ": it runs only on a GPU, which is not available: " + untested};
  }
  if (!untested.empty()) TellUntested(who, untested);
  const std::vector<Way> ways = WaysOf(inputs_, devices);
  Findings findings;
  std::vector<TensorValue> results;
  for (const Way& way : ways) {
    const CrashNote note("OpTester: " + who + " crashed in " + runtime->name() + ", " + way.name +
                         "\n");
    Findings ignored;
    const bool is_to_fail = expected == ExpectResult::kExpectFailure;
    const Status status = trial.Run(way, &results, is_to_fail ? &ignored : &findings);
    const bool is_meant = status.message().find(text) != std::string::npos;
    if (!is_to_fail && !status.ok()) {
      findings.Add(way.name, "it failed: " + status.message());
    } else if (is_to_fail && status.ok()) {
      findings.Add(way.name,
                   "expected a failure with \"" + std::string(text) + "\", but it did not fail");
    } else if (is_to_fail && !is_meant) {
      findings.Add(way.name, "expected a failure with \"" + std::string(text) +
                                 "\", but the error is: " + status.message());
    }
  }
  if (expected == ExpectResult::kExpectSuccess && !results.empty()) {
    trial.CheckRule(results, &findings);
  }
  std::vector<std::string> problems = findings.Texts(who, runtime->name(), ways.size());
  if (!problems.empty() && !runtime->has_packs()) {
    problems.back() += "\n  No pack is loaded. Fix: name the packs in OPGRAFT_TEST_PACKS";
  }
  return {std::move(problems), ""};
}

std::vector<std::string> OpTester::CheckShapes(ExpectResult expected, std::string_view text) const {
  using namespace op_test;  // NOLINT(google-build-using-namespace): its own parts
  const std::string who = (domain_.empty() ? "" : domain_ + "::") + name_;
  std::vector<std::string> problems;
  for (const std::string& mistake : mistakes_) {
    problems.push_back(who + ": the case is wrong: " + mistake);
  }
  if (!problems.empty()) return problems;
  const TestRuntime* runtime = nullptr;
  if (const Status status = TestRuntime::Find(&runtime); !status.ok()) return {status.message()};
  ModelPlan shapes{.domain = domain_, .operator_name = name_, .version = version_};
  shapes.attributes = attributes_;
  const Trial trial(*runtime, std::move(shapes), inputs_, outputs_);
  Symbols symbols;
  const ModelPlan plan = trial.Plan({.name = "shapes alone"}, &symbols);
  for (const Value& input : inputs_) {
    for (const Dimension& one : input.shape.value_or(std::vector<Dimension>())) {
      symbols.emplace(one.symbol, 1);  // any size: it only matters that the symbol is known
    }
  }
  symbols.erase("");

  const bool has_rule = trial.declaration() != nullptr;
  std::vector<ToldShape> told(outputs_.size());
  Status status;
  if (has_rule) status = AskRule(*trial.declaration(), plan, &told);
  if (expected == ExpectResult::kExpectFailure) {
    const std::string wanted =
        who + ": expected its shape rule to fail with \"" + std::string(text) + "\", but ";
    if (!has_rule) return {wanted + "no pack has the operator, so there is no rule to check"};
    if (status.ok()) return {wanted + "it did not fail"};
    if (status.message().find(text) != std::string::npos) return {};
    return {wanted + "the error is: " + status.message()};
  }
  if (!status.ok()) return {who + ": its shape rule fails: " + status.message()};
  for (std::size_t i = 0; has_rule && i < outputs_.size(); ++i) {
    if (outputs_[i].name.empty()) continue;
    const std::string problem =
        CompareShapes(outputs_[i], told[i].element_type, told[i].shape, false, symbols);
    if (!problem.empty()) {
      problems.push_back(who + ": " + "output '" + outputs_[i].name + "': " + problem +
                         "\n  from its shape rule by itself");
    }
  }
  std::unique_ptr<TestSession> session;
  const Devices devices = ChooseDevices(*runtime, trial, is_cuda_excluded_).first;
  if (!devices.cpu && !devices.gpu) return problems;
  status = trial.Open(plan, {.on_gpu = !devices.cpu}, &session);
  if (!status.ok())
    problems.push_back(who + ": " + runtime->name() + " refuses the model: " + status.message());
  std::size_t place = 0;
  for (const Value& output : outputs_) {
    InferredType inferred;
    if (!status.ok() || output.name.empty()) continue;
    status = session->Inferred(place++, &inferred);
    const std::string problem = status.ok() ? CompareShapes(output, inferred.element_type,
                                                            inferred.shape, has_rule, symbols)
                                            : status.message();
    if (!problem.empty()) {
      problems.push_back(who + ": " + "output '" + output.name + "': " + problem +
                         "\n  inferred by " + runtime->name());
    }
  }
  return problems;
}

}  // namespace opgraft
