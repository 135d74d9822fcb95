// Matches a node against the schema of its operator.
#include "model/declared_node.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/element_type.h"
#include "base/packed_texts.h"
#include "core/domains.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// Whether an attribute of integers may be given where floats are expected.
bool IsWider(std::int64_t expected, std::int64_t given) {
  return (expected == tag::kFloat && given == tag::kInt) ||
         (expected == tag::kFloats && given == tag::kInts);
}

class Matcher {
 public:
  Matcher(const Schema& schema, const DeclaredValues& declared, PyOpNode* node)
      : schema_(schema), declared_(declared), node_(node), who_(node->spec.Who()) {}

  Status Check(const std::vector<Field>& attributes) {
    if (Status status = CheckCounts(); !status.ok()) return status;
    if (Status status = TakeAttributes(attributes); !status.ok()) return status;
    return CheckInputTypes();
  }

  Status Match(const std::vector<Field>& attributes) {
    if (Status status = Check(attributes); !status.ok()) return status;
    if (Status status = FindOutputTypes(); !status.ok()) return status;
    Arrange();
    return Status();
  }

 private:
  /// The type of an output: a fixed type, or the type of input `source`.
  struct OutputType {
    std::int64_t fixed = 0;
    std::size_t source = 0;
  };

  std::vector<std::string_view>& inputs() { return node_->inputs; }
  std::vector<std::string_view>& outputs() { return node_->outputs; }
  Status CheckCounts() {
    while (!inputs().empty() && inputs().back().empty()) inputs().pop_back();
    if (!Schema::TakesCount(schema_.inputs, inputs().size())) {
      return Status::Model(who_ + ": expected " + Schema::CountText(schema_.inputs, "input") +
                           ", but the node has " + std::to_string(inputs().size()));
    }
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      const Parameter& parameter = Schema::At(schema_.inputs, i);
      if (!inputs()[i].empty() || parameter.occurrence == Occurrence::kOptional) continue;
      return Status::Model(who_ + ": input " + std::to_string(i) + ", " + Quoted(parameter.name) +
                           ", is absent, but it is not optional");
    }
    // A Python operator returns all its outputs, whether or not they are used.
    if (!schema_.native && outputs().size() < schema_.outputs.size()) {
      const bool is_variadic = schema_.outputs.back().occurrence == Occurrence::kVariadic;
      outputs().resize(schema_.outputs.size() - (is_variadic ? 1 : 0));
    }
    if (!Schema::TakesCount(schema_.outputs, outputs().size())) {
      return Status::Model(who_ + ": expected " + Schema::CountText(schema_.outputs, "output") +
                           ", but the node has " + std::to_string(outputs().size()));
    }
    return Status();
  }

  Status TakeAttributes(const std::vector<Field>& attributes) {
    std::vector<std::string_view> given;
    for (const Field& attribute : attributes) {
      const auto [name, type, is_reference] = ReadAttributeHead(attribute.Bytes());
      if (const AttributeParameter* const packed = FindPacked(name, type)) {
        given.push_back(packed->name);
        continue;
      }
      const auto known =
          std::find_if(schema_.attributes.begin(), schema_.attributes.end(),
                       [name = name](const auto& known) { return known.name == name; });
      if (known == schema_.attributes.end()) {
        return Status::Model(who_ + ": the operator has no attribute " + Quoted(name) +
                             "; its attributes are: " + AttributeNames());
      }
      if (known->type != type && !IsWider(known->type, type)) {
        return Status::Model(who_ + ": attribute " + Quoted(name) + " is of ONNX's kind " +
                             tag::AttributeTypeName(type) + ", expected " +
                             tag::AttributeTypeName(known->type));
      }
      given.push_back(name);
      node_->spec.arguments += attribute.slice();
    }
    for (const AttributeParameter& known : schema_.attributes) {
      const bool is_given = std::find(given.begin(), given.end(), known.name) != given.end();
      if (is_given || !known.is_required) continue;
      return Status::Model(who_ + ": attribute " + Quoted(known.name) +
                           " is missing, and it has no default");
    }
    return Status();
  }

  /// Finds the STRINGS attribute that a STRING attribute replaces in a pack's node that was already
  /// prepared.
  const AttributeParameter* FindPacked(std::string_view name, std::int64_t type) const {
    if (!schema_.native || type != tag::kString) return nullptr;
    for (const AttributeParameter& known : schema_.attributes) {
      if (known.type == tag::kStrings && PackedName(known.name) == name) return &known;
    }
    return nullptr;
  }

  std::string AttributeNames() const {
    std::string names;
    for (const AttributeParameter& known : schema_.attributes) {
      names += (names.empty() ? "" : ", ") + known.name;
    }
    return names.empty() ? "none" : names;
  }

  Status CheckInputTypes() {
    std::vector<std::int64_t> types;
    for (const std::string_view input : inputs()) {
      types.push_back(input.empty() ? 0 : declared_.TypeOf(input));
    }
    return schema_.CheckTypes(who_, types, {});
  }

  Status FindOutputTypes() {
    std::optional<std::size_t> leading;
    for (std::size_t i = 0; i < outputs().size(); ++i) {
      const TypeOrigin origin = FindTypeOrigin(
          schema_, i, inputs().size(), [&](std::size_t input) { return !inputs()[input].empty(); });
      OutputType& type = output_types_.emplace_back();
      type.fixed = origin.fixed;
      if (type.fixed != 0) continue;
      if (!origin.input) {
        return Status::Model(who_ + ": output " + Quoted(Schema::At(schema_.outputs, i).name) +
                             " has the type of an input that is absent");
      }
      type.source = *origin.input;
      if (!leading) leading = origin.input;
      // Only one input can determine types while the runtime loads the model.
      if (*leading != type.source) {
        if (Status status = Fix(i); !status.ok()) return status;
      }
    }
    return LimitLeading();
  }

  /// PyOpLike needs all outputs to follow the first input, and PyOpLike2 allows two. If more follow
  /// it while others do not, the model must declare the types of the rest.
  Status LimitLeading() {
    const auto follows = [](const OutputType& type) { return type.fixed == 0; };
    if (std::all_of(output_types_.begin(), output_types_.end(), follows)) return Status();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < output_types_.size(); ++i) {
      if (!follows(output_types_[i]) || ++kept <= pyop::kMostLeading) continue;
      if (Status status = Fix(i); !status.ok()) return status;
    }
    return Status();
  }

  /// Fixes the type of an output to the type that the model declares.
  Status Fix(std::size_t index) {
    OutputType& type = output_types_[index];
    const std::string_view source = inputs()[type.source];
    type.fixed = declared_.TypeOf(source);
    if (type.fixed == 0) type.fixed = declared_.TypeOf(outputs()[index]);
    if (type.fixed != 0) return Status();
    return Status::Model(
        who_ + ": output " + std::to_string(index) + " has the type of " + Quoted(source) +
        ", which the model does not declare. Fix: let onnx infer it first: model = "
        "onnx.shape_inference.infer_shapes(model)");
  }

  /// Moves the input that determines the type to the front, and the outputs that follow it before
  /// the other outputs.
  void Arrange() {
    pyop::Spec& spec = node_->spec;
    std::vector<std::size_t> input_order;
    std::vector<std::size_t> output_order;
    for (std::size_t i = 0; i < output_types_.size(); ++i) {
      spec.output_types.push_back(output_types_[i].fixed);
      spec.output_shapes.push_back(ShapeOf(outputs()[i]));
      if (output_types_[i].fixed != 0) continue;
      output_order.push_back(i);
      input_order = {output_types_[i].source};
    }
    const std::size_t leading = output_order.size();
    spec.on_gpu = schema_.on_gpu;
    node_->op_type = spec.on_gpu ? pyop::kGpuOpType : pyop::kOpType;
    if (leading > 0) {
      node_->op_type += pyop::kLikeEnding;
      if (leading < outputs().size()) node_->op_type += std::to_string(leading);
    }
    for (std::size_t i = 0; i < outputs().size(); ++i) {
      if (output_types_[i].fixed != 0) output_order.push_back(i);
    }
    for (std::size_t i = 0; i < inputs().size(); ++i) {
      const bool is_first = !input_order.empty() && input_order[0] == i;
      if (!inputs()[i].empty() && !is_first) input_order.push_back(i);
    }
    spec.input_places = Reorder(input_order, &inputs());
    spec.output_places = Reorder(output_order, &outputs());
  }

  /// Returns the shape that the model declares. Models for onnxruntime-extensions write [] for any
  /// shape, which ONNX Runtime takes for that too.
  pyop::DeclaredShape ShapeOf(std::string_view output) const {
    pyop::DeclaredShape shape = declared_.ShapeOf(output);
    const bool is_any = schema_.domain == kExtensionsDomain && shape && shape->empty();
    return is_any ? std::nullopt : shape;
  }

  /// Reorders `values` and returns the new position of each; empty if nothing moved.
  static std::vector<std::int64_t> Reorder(const std::vector<std::size_t>& order,
                                           std::vector<std::string_view>* values) {
    std::vector<std::int64_t> places(values->size(), pyop::kUnknown);
    std::vector<std::string_view> ordered;
    for (const std::size_t index : order) {
      places[index] = static_cast<std::int64_t>(ordered.size());
      ordered.push_back((*values)[index]);
    }
    bool is_changed = ordered.size() != values->size();
    for (std::size_t i = 0; i < places.size(); ++i) {
      is_changed |= places[i] != static_cast<std::int64_t>(i);
    }
    *values = std::move(ordered);
    return is_changed ? places : std::vector<std::int64_t>();
  }

  const Schema& schema_;
  const DeclaredValues& declared_;
  PyOpNode* const node_;
  const std::string who_;
  std::vector<OutputType> output_types_;
};

}  // namespace

Status ReadDeclared(std::string_view node, const Schema& schema, const DeclaredValues& declared,
                    PyOpNode* read) {
  const std::vector<Field> attributes = ReadParts(node, ReadHead(node), read);
  read->spec.operator_name = schema.FullName();
  read->spec.module = schema.module;
  return Matcher(schema, declared, read).Match(attributes);
}

Status CheckDeclared(std::string_view node, const Schema& schema, const DeclaredValues& declared) {
  PyOpNode read;
  const std::vector<Field> attributes = ReadParts(node, ReadHead(node), &read);
  read.spec.operator_name = schema.FullName();
  return Matcher(schema, declared, &read).Check(attributes);
}

}  // namespace opgraft::model
