// Runs a case in one of its ways, and compares inferred types and shapes with the results.
#include "trial.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "shape_inference.h"

namespace opgraft::op_test {
namespace {

std::string OutputText(const std::string& name) { return "output '" + name + "'"; }

std::vector<std::int64_t> SizesOf(const TensorValue& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

bool AreSame(const std::vector<TensorValue>& a, const std::vector<TensorValue>& b) {
  return std::ranges::equal(a, b, [](const TensorValue& one, const TensorValue& other) {
    return one.bytes() == other.bytes() && one.strings() == other.strings() &&
           std::ranges::equal(one.shape(), other.shape());
  });
}

/// What was inferred for an output must be compatible with the actual output.
void CheckClaim(const std::string& way, const std::string& who, const std::string& output,
                const InferredType& claim, const Symbols& symbols, const TensorValue& got,
                Findings* findings) {
  if (claim.element_type != 0 && claim.element_type != got.element_type()) {
    findings->Add(way, OutputText(output) + ": " + who + ElementTypeText(claim.element_type) +
                           ", but it is " + ElementTypeText(got.element_type()));
  }
  const std::vector<std::int64_t> shape = SizesOf(got);
  if (!claim.shape || Contains(claim.shape, shape, symbols)) return;
  std::string meaning;
  for (const OpTester::Dimension& one : *claim.shape) {
    const auto size = one.size < 0 ? Evaluate(one.symbol, symbols) : std::nullopt;
    if (!size) continue;
    meaning +=
        (meaning.empty() ? ", where " : " and ") + one.symbol + " is " + std::to_string(*size);
  }
  findings->Add(way, OutputText(output) + ": " + who + "the shape " + ShapeText(claim.shape) +
                         meaning + ", but it is " + SizesText(shape));
}

}  // namespace

Trial::Trial(const TestRuntime& runtime, ModelPlan plan, const std::vector<OpTester::Value>& inputs,
             const std::vector<OpTester::Value>& outputs)
    : runtime_(runtime),
      plan_(std::move(plan)),
      inputs_(inputs),
      outputs_(outputs),
      declaration_(runtime.FindOperator(plan_.domain, plan_.operator_name, plan_.version)) {
  for (const OpTester::Value& output : outputs) {
    plan_.outputs.push_back({output.name, output.tensor.element_type(), std::nullopt, nullptr});
    if (!output.name.empty()) output_names_.push_back(output.name);
  }
}

ModelPlan Trial::Plan(const Way& way, Symbols* symbols) const {
  ModelPlan plan = plan_;
  plan.is_between = way.is_between;
  plan.asks_shapes = way.asks_shapes;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const OpTester::Value& input = inputs_[i];
    ModelValue value{input.name, input.tensor.element_type(), input.shape, nullptr};
    if (input.is_constant || way.initializers.contains(i)) {
      value.initializer = &input.tensor;
    } else if (way.dimensions == Dimensions::kUnknown) {
      value.shape.reset();
    } else if (way.dimensions == Dimensions::kSymbolic && value.shape) {
      for (std::size_t axis = 0; axis < value.shape->size(); ++axis) {
        const std::string symbol = input.name + "_" + std::to_string(axis);
        symbols->emplace(symbol, (*value.shape)[axis].size);
        (*value.shape)[axis] = OpTester::Dimension(symbol);
      }
    }
    plan.inputs.push_back(std::move(value));
  }
  return plan;
}

Devices Trial::FindDevices() const {
  if (declaration_ == nullptr) return {};
  const auto takes = [&](const OpgraftKernel& kernel) {
    for (std::size_t i = 0; i < inputs_.size() && declaration_->input_count > 0; ++i) {
      const OpgraftParameter& parameter =
          declaration_->inputs[std::min(i, declaration_->input_count - 1)];
      const std::int32_t taken = kernel.types[parameter.type];
      const std::int32_t given = inputs_[i].tensor.element_type();
      if (taken != 0 && given != 0 && taken != given) return false;
    }
    return true;
  };
  Devices devices{.cpu = false};
  for (std::size_t i = 0; i < declaration_->kernel_count; ++i) {
    const OpgraftKernel& kernel = *declaration_->kernels[i];
    if (!takes(kernel)) continue;
    devices.cpu |= std::string_view(kernel.device) == "cpu";
    devices.gpu |= std::string_view(kernel.device) == "cuda";
  }
  if (!devices.gpu) devices.cpu = true;  // for no kernel at all: the runtime reports the error
  return devices;
}

Status Trial::Open(ModelPlan plan, SessionKind kind, std::unique_ptr<TestSession>* session) const {
  *session = std::make_unique<TestSession>();
  Status status = (*session)->Open(runtime_, WriteModel(plan), kind);
  if (status.ok()) return status;
  plan.are_outputs_typed = true;
  *session = std::make_unique<TestSession>();
  Status typed = (*session)->Open(runtime_, WriteModel(plan), kind);
  if (typed.ok()) return typed;
  if (typed.message() == status.message()) return status;
  return Status::Error(status.message() +
                       "\n  and with the types of the outputs given: " + typed.message());
}

Status Trial::Run(const Way& way, std::vector<TensorValue>* results, Findings* findings) const {
  Symbols symbols;
  const ModelPlan plan = Plan(way, &symbols);
  std::unique_ptr<TestSession> session;
  const SessionKind kind{.is_optimized = !way.is_between,
                         .on_gpu = way.on_gpu,
                         .is_gpu_alone = way.on_gpu && !way.is_between};
  if (Status status = Open(plan, kind, &session); !status.ok()) return status;
  std::vector<FedValue> fed;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const ModelValue& value = plan.inputs[i];
    if (value.name.empty() || value.initializer != nullptr) continue;
    fed.push_back({value.name, &inputs_[i].tensor, way.is_odd});
  }
  std::vector<std::string> names = output_names_;
  for (const std::string& name : output_names_) {
    if (way.asks_shapes) names.push_back(ShapeName(name));
  }
  std::vector<TensorValue> first;
  for (const char* const time : {"", "in a second run, "}) {
    std::vector<TensorValue> got;
    std::vector<std::string> changed;
    if (Status status = session->Run(fed, names, &got, &changed); !status.ok()) return status;
    if (!first.empty() && AreSame(first, got)) break;
    for (const std::string& name : changed) {
      findings->Add(way.name, std::string(time) + "it changed its input '" + name + "'");
    }
    CompareOutputs(way.name, time, got, findings);
    first = std::move(got);
  }
  CheckInferred(way, *session, symbols, first, findings);
  first.resize(output_names_.size());
  *results = std::move(first);
  return Status();
}

void Trial::CompareOutputs(const std::string& way, const std::string& time,
                           const std::vector<TensorValue>& got, Findings* findings) const {
  std::size_t place = 0;
  for (const OpTester::Value& output : outputs_) {
    if (output.name.empty()) continue;
    const OpTester::Tolerance tolerance =
        output.tolerance.value_or(DefaultTolerance(output.tensor.element_type()));
    const std::string problem = Compare(output.tensor, got[place], tolerance);
    if (!problem.empty()) findings->Add(way, time + OutputText(output.name) + problem);
    ++place;
  }
  // The outputs are followed by their shapes, if these were requested.
  for (std::size_t i = 0; place < got.size(); ++i, ++place) {
    const Tensor<const std::int64_t> shape = Elements<std::int64_t>(got[place]);
    if (std::ranges::equal(shape, got[i].shape())) continue;
    findings->Add(way, OutputText(output_names_[i]) + ": the operator Shape after it returns " +
                           SizesText({shape.data(), shape.size()}) + ", but its shape is " +
                           SizesText(got[i].shape()) + ": the runtime inferred it wrongly");
  }
}

void Trial::CheckInferred(const Way& way, const TestSession& session, const Symbols& symbols,
                          const std::vector<TensorValue>& got, Findings* findings) const {
  const std::size_t stride =
      way.asks_shapes ? 2 : 1;  // in the model, each output is followed by its shape
  for (std::size_t i = 0; i < output_names_.size(); ++i) {
    InferredType inferred;
    if (Status status = session.Inferred(i * stride, &inferred); !status.ok()) {
      findings->Add(way.name, OutputText(output_names_[i]) + ": " + status.message());
      continue;
    }
    CheckClaim(way.name, "the runtime inferred ", output_names_[i], inferred, symbols, got[i],
               findings);
  }
}

void Trial::CheckRule(const std::vector<TensorValue>& results, Findings* findings) const {
  if (declaration_ == nullptr || declaration_->infer == nullptr) return;
  const std::pair<Dimensions, const char*> kinds[] = {
      {Dimensions::kFixed, "dimensions fixed"},
      {Dimensions::kSymbolic, "dimensions symbolic"},
      {Dimensions::kUnknown, "ranks unknown"}};
  for (const auto& [dimensions, kind] : kinds) {
    Symbols symbols;
    const ModelPlan plan = Plan({.name = kind, .dimensions = dimensions}, &symbols);
    const std::string way = std::string("its shape rule by itself, ") + kind;
    std::vector<ToldShape> told;
    if (const Status status = AskRule(*declaration_, plan, &told); !status.ok()) {
      findings->Add(way, "its shape rule fails: " + status.message());
      continue;
    }
    std::size_t place = 0;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].name.empty()) continue;
      const TensorValue& got = results[place++];
      if (!told[i].is_told) continue;
      CheckClaim(way, "its shape rule says ", outputs_[i].name,
                 {told[i].element_type, told[i].shape}, symbols, got, findings);
    }
  }
}

}  // namespace opgraft::op_test
