// A fuzzer for Prepare: any bytes are either prepared or refused, and a prepared model can be
// prepared again. It also surveys and rescues them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

#include "model/islands.h"
#include "model/kernel_probe.h"
#include "model/prepare.h"
#include "model/survey.h"

namespace opgraft::model {
namespace {

[[noreturn]] void Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "prepare_fuzz: %s: %s\n", what, status.message().c_str());
  std::abort();
}

/// Declares my::Op, which has parameters and attributes of every kind.
class OneOperator final : public OperatorSource {
 public:
  OneOperator() {
    Schema schema;
    schema.domain = "my";
    schema.name = "Op";
    schema.module = "m";
    schema.inputs = {{"x", Occurrence::kRequired, 0},
                     {"s", Occurrence::kOptional, 1},
                     {"rest", Occurrence::kVariadic, 2}};
    schema.outputs = {{"y", Occurrence::kRequired, 0}, {"z", Occurrence::kOptional, 1}};
    schema.types = {{}, {.allowed = {1, 11}}, {.allowed = {}, .is_tied = false}};
    schema.attributes = {{"alpha", 1, true}, {"axes", 7, false}};
    schema_ = std::make_shared<const Schema>(std::move(schema));
  }

  Status Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) override {
    if (query.full_name == schema_->FullName()) *schema = schema_;
    return Status();
  }

 private:
  std::shared_ptr<const Schema> schema_;
};

void PrepareTwice(std::string_view model, const char* runtime, std::string_view file_name) {
  OneOperator operators;
  PreparedModel prepared;
  const Status status = Prepare(model, "the model", runtime, operators, &prepared, file_name);
  if (!status.ok() && status.kind() != ErrorKind::kModel) Fail("not a ModelError", status);
  if (!status.ok() || prepared.bytes.empty()) return;
  PreparedModel again;
  const Status second = Prepare(prepared.bytes, "the prepared model", runtime, operators, &again);
  if (!second.ok()) Fail("the prepared model is refused", second);
  if (!again.bytes.empty()) Fail("the prepared model is changed again", second);
}

void TakeSurveyOf(std::string_view model) {
  Survey survey;
  const Status status = TakeSurvey(model, "the model", "1.31.1", &survey);
  if (!status.ok() && status.kind() != ErrorKind::kModel) Fail("not a ModelError", status);
}

/// Says yes to about half of the nodes. Answers are not remembered, so that none depends on others.
class SomeKernels final : public KernelProbe {
 public:
  bool Loads(std::string_view model) override {
    return std::hash<std::string_view>()(model) % 2 == 0;
  }
  std::string Conditions() const override { return ""; }
};

void MakeIslandsOf(std::string_view model, bool rounds_each) {
  SomeKernels kernels;
  Islands islands;
  const Status status = MakeIslands({.model = model,
                                     .origin = "the model",
                                     .runtime_version = "1.31.1",
                                     .rounds_each = rounds_each,
                                     .probe = &kernels},
                                    &islands);
  if (!status.ok() && status.kind() != ErrorKind::kModel) Fail("not a ModelError", status);
  if (islands.bytes.empty()) return;
  if (islands.bytes.size() > 16 * model.size() + 4096) Fail("the model is blown up", status);
  TakeSurveyOf(islands.bytes);
}

/// Prepends 16 MB of documentation, because only large models get references to weights.
std::string_view Enlarged(std::string_view model) {
  static std::string large = [] {
    std::string documentation;
    protozero::pbf_writer(documentation).add_string(6, std::string(std::size_t{16} << 20U, ' '));
    return documentation;
  }();
  static const std::size_t documentation = large.size();
  large.resize(documentation);
  large += model;
  return large;
}

}  // namespace
}  // namespace opgraft::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using opgraft::model::PrepareTwice;
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  for (const char* runtime : {"1.19.2", "1.31.1"}) PrepareTwice(model, runtime, "");
  opgraft::model::TakeSurveyOf(model);
  for (const bool rounds_each : {false, true}) opgraft::model::MakeIslandsOf(model, rounds_each);
  // This is slow, so it is done only for some models that are large enough to hold such a weight.
  if (size > 4096 && size % 16 == 0) {
    PrepareTwice(opgraft::model::Enlarged(model), "1.31.1", "model.onnx");
  }
  return 0;
}
