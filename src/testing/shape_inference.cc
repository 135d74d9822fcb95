// A host for shape inference without a runtime and without a model.
#include "shape_inference.h"

#include <deque>
#include <utility>
#include <variant>

namespace opgraft::op_test {
namespace {

OpgraftText View(const std::string& text) { return {text.data(), text.size()}; }

class RuleHost : public OpgraftInference {
 public:
  RuleHost(const ModelPlan& plan, std::vector<ToldShape>* told)
      : OpgraftInference{&kTable}, plan_(plan), told_(told) {
    told_->assign(plan.outputs.size(), {});
    for (const ModelValue& input : plan.inputs) {
      std::vector<OpgraftDimension>& dimensions = dimensions_.emplace_back();
      if (!input.shape) continue;
      for (const OpTester::Dimension& one : *input.shape) {
        dimensions.push_back({one.size, one.symbol.empty() ? nullptr : one.symbol.c_str()});
      }
    }
  }
  const Status& status() const { return status_; }
  bool has_reported() const { return has_reported_; }

 private:
  static RuleHost& Self(OpgraftInference* self) { return *static_cast<RuleHost*>(self); }
  static void Fail(OpgraftInference* self, const OpgraftError* error) {
    if (std::exchange(Self(self).has_reported_, true)) return;
    Self(self).status_ = {static_cast<ErrorKind>(error->kind),
                          std::string(error->text.data, error->text.size)};
  }
  int Refuse(std::string text) {
    if (!has_reported_) status_ = Status::Error(std::move(text));
    return 1;
  }
  static std::size_t InputCount(OpgraftInference* self) { return Self(self).plan_.inputs.size(); }
  static std::size_t OutputCount(OpgraftInference* self) { return Self(self).plan_.outputs.size(); }
  static int Input(OpgraftInference* self, std::size_t index, OpgraftShape* shape) {
    *shape = {};
    const RuleHost& host = Self(self);
    if (index >= host.plan_.inputs.size()) return 0;
    const ModelValue& input = host.plan_.inputs[index];
    shape->element_type = input.element_type;
    shape->has_rank = input.shape ? 1 : 0;
    shape->rank = host.dimensions_[index].size();
    shape->dimensions = host.dimensions_[index].data();
    return 0;
  }
  OpgraftTensor Lend(const TensorValue& tensor) {
    const std::span<const std::int64_t> shape = tensor.shape();
    OpgraftTensor lent = {nullptr, shape.data(), shape.size(), tensor.element_type()};
    if (tensor.element_type() == kElementType<std::string>) {
      std::vector<OpgraftText>& texts = texts_.emplace_back();
      for (const std::string& text : tensor.strings()) texts.push_back(View(text));
      lent.data = texts.data();
    } else {
      lent.data = const_cast<std::byte*>(tensor.bytes().data());
    }
    if (lent.data == nullptr) lent.data = this;  // an empty tensor needs any address but NULL
    return lent;
  }
  static int Attribute(OpgraftInference* self, const char* name, std::int32_t kind,
                       OpgraftAttribute* read) {
    *read = {};
    RuleHost& host = Self(self);
    for (const OpTester::Attribute& attribute : host.plan_.attributes) {
      if (attribute.name == name) return host.Lend(attribute, kind, read);
    }
    return 0;
  }
  int Lend(const OpTester::Attribute& attribute, std::int32_t kind, OpgraftAttribute* read) {
    std::visit(
        [&]<class A>(const A& value) {
          read->kind = kAttributeKind<A>;
          read->count = 1;
          if constexpr (std::is_same_v<A, float>) {
            read->floats = &value;
          } else if constexpr (std::is_same_v<A, std::int64_t>) {
            read->integers = &value;
          } else if constexpr (std::is_same_v<A, std::string>) {
            read->texts = &texts_.emplace_back(1, View(value)).front();
          } else if constexpr (std::is_same_v<A, TensorValue>) {
            read->tensors = &tensors_.emplace_back(Lend(value));
          } else if constexpr (!std::is_same_v<A, std::monostate>) {
            read->count = value.size();
            if constexpr (std::is_same_v<A, std::vector<float>>) {
              read->floats = value.data();
            } else if constexpr (std::is_same_v<A, std::vector<std::int64_t>>) {
              read->integers = value.data();
            } else {
              std::vector<OpgraftText>& texts = texts_.emplace_back();
              for (const std::string& text : value) texts.push_back(View(text));
              read->texts = texts.data();
            }
          }
        },
        attribute.value);
    if (read->kind == kind) return 0;
    const bool is_list = kind == kAttributeKind<std::vector<float>>;
    if ((kind == kAttributeKind<float> || is_list) && read->integers != nullptr &&
        is_list == (read->kind == kAttributeKind<std::vector<std::int64_t>>)) {
      // Integers are accepted where floats are expected.
      std::vector<float>& floats =
          floats_.emplace_back(read->integers, read->integers + read->count);
      *read = {kind, floats.size(), floats.data(), nullptr, nullptr, nullptr};
      return 0;
    }
    return Refuse("attribute '" + attribute.name + "' is of ONNX's kind " +
                  std::to_string(read->kind) + ", expected " + std::to_string(kind));
  }
  static int Constant(OpgraftInference* self, std::size_t index, OpgraftTensor* tensor) {
    *tensor = {};
    RuleHost& host = Self(self);
    if (index >= host.plan_.inputs.size()) return 0;
    const TensorValue* const value = host.plan_.inputs[index].initializer;
    if (value != nullptr) *tensor = host.Lend(*value);
    return 0;
  }
  static int SetOutput(OpgraftInference* self, std::size_t index, const OpgraftShape* shape) {
    RuleHost& host = Self(self);
    if (index >= host.told_->size()) return 0;  // the node does not have this output
    ToldShape& told = (*host.told_)[index];
    told.is_told = true;
    told.element_type = shape->element_type;
    told.shape.reset();
    if (shape->has_rank == 0) return 0;
    told.shape.emplace();
    for (std::size_t i = 0; i < shape->rank; ++i) {
      const OpgraftDimension& one = shape->dimensions[i];
      OpTester::Dimension dimension(one.size);
      if (one.size < 0 && one.symbol != nullptr) dimension.symbol = one.symbol;
      told.shape->push_back(std::move(dimension));
    }
    return 0;
  }

  static const OpgraftInferenceTable kTable;

  const ModelPlan& plan_;
  std::vector<ToldShape>* const told_;
  Status status_;
  bool has_reported_ = false;  // by `fail`
  std::vector<std::vector<OpgraftDimension>> dimensions_;
  std::deque<std::vector<OpgraftText>> texts_;
  std::deque<OpgraftTensor> tensors_;
  std::deque<std::vector<float>> floats_;
};

const OpgraftInferenceTable RuleHost::kTable = {
    &RuleHost::Fail,      &RuleHost::InputCount, &RuleHost::OutputCount, &RuleHost::Input,
    &RuleHost::Attribute, &RuleHost::Constant,   &RuleHost::SetOutput};

}  // namespace

Status AskRule(const OpgraftOperator& declaration, const ModelPlan& plan,
               std::vector<ToldShape>* told) {
  RuleHost host(plan, told);
  if (declaration.infer == nullptr) return Status();
  const int returned = declaration.infer(&declaration, &host);
  if (returned == 0 && !host.has_reported()) return Status();
  if (!host.status().ok()) return host.status();
  return Status::Error("it failed, and did not say why");
}

}  // namespace opgraft::op_test
