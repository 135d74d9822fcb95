// Goes once through the nodes of each graph: infers the types of values, asks for kernels, and
// writes nodes that have none in a wider type.
#include "model/islands.h"

#include <algorithm>
#include <deque>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <utility>

#include "model/fields.h"
#include "model/nesting.h"
#include "model/onnx_tags.h"
#include "model/opset_import.h"
#include "model/reading.h"
#include "model/rope.h"
#include "model/typed_values.h"
#include "model/weight_references.h"
#include "model/widening.h"

namespace opgraft::model {
namespace {

using Types = std::vector<ValueType>;
using Names = std::vector<std::string_view>;

/// How a node is written: with other names and attributes, and with other graphs inside.
struct Changed {
  Names inputs;
  Names outputs;
  std::map<std::string_view, Rope> attributes;  // AttributeProtos, by name
};

/// How a node runs in a wider type.
struct Island {
  Wider wider;
  Types outputs;
  Names attributes;
};

class IslandMaker {
 public:
  IslandMaker(const IslandsRequest& request, Islands* islands)
      : request_(request), islands_(islands), references_(request.model, request.file_name) {}

  Status Run();

 private:
  /// Adds the rewritten graph to `out`. `given` are the types of its inputs, as far as the node
  /// around it tells; `results` gets those of its outputs.
  Status WriteGraph(std::string_view graph, TypedValues* values, const Types& given, int depth,
                    Rope* out, Types* results);
  static void Define(std::string_view graph, const Types& given, TypedValues* values,
                     std::map<std::string_view, ValueType>* declared);
  /// Decides how a node runs, and adds it to `out` with the Casts before it.
  Status AddNode(const Field& field, const std::map<std::string_view, ValueType>& declared,
                 TypedValues* values, int depth, Rope* out);
  /// Adds the node in its own types.
  Status Keep(const NodeParts& node, std::string_view slice, const Types& outputs,
              TypedValues* values, int depth, Rope* out);
  /// Rewrites the graphs inside a node; `outputs` gets the types that follow from them.
  Status WriteGraphs(const NodeParts& node, TypedValues* values, int depth, Changed* changed,
                     Types* outputs);
  /// Finds the wider types that there is a kernel for.
  bool FindIsland(const NodeParts& node, const Types& inputs, const Types& outputs, Island* island);
  void WriteIsland(const NodeParts& node, const Types& inputs, const Types& outputs,
                   const Island& island, TypedValues* values, Rope* out);
  void Refuse(const NodeParts& node, const Types& inputs, const Types& outputs);
  static void Write(const NodeParts& node, Changed changed, TypedValues* values, Rope* out);

  const IslandsRequest& request_;
  Islands* const islands_;
  WeightReferences references_;
  ValueNames* names_ = nullptr;
  Kernels* kernels_ = nullptr;
  std::int64_t opset_ = 0;  // for the types of values
  std::set<std::pair<std::string_view, std::string_view>> functions_;
  CastCounts casts_;
  std::deque<std::string> made_;  // attributes
};

Status IslandMaker::Run() {
  std::string_view graph;
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;
  for (FieldReader reader(request_.model); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraph) graph = field.Bytes();
    if (field.tag() == tag::kIrVersion) ir_version = field.Integer();
    if (field.tag() == tag::kOpsetImport) {
      const OpsetImport import = ReadOpsetImport(field.Bytes());
      if (IsDefaultDomain(import.domain)) opset = std::max(opset, import.version);
    }
    if (field.tag() == tag::kFunctions) {
      functions_.emplace(Normalized(ReadText(field.Bytes(), tag::kFunctionDomain)),
                         ReadText(field.Bytes(), tag::kFunctionName));
    }
  }
  opset_ = std::max(opset, request_.written_opset);
  ValueNames names(graph);
  names_ = &names;
  Kernels kernels(*request_.probe, opset, ir_version);
  kernels_ = &kernels;
  TypedValues values(nullptr, &names, &casts_);
  Rope out;
  for (FieldReader reader(request_.model); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() != tag::kGraph) {
      out.Borrow(field.slice());
      continue;
    }
    Rope written;
    Types results;
    Status status = WriteGraph(field.Bytes(), &values, {}, 0, &written, &results);
    if (!status.ok()) return status;
    out.AddMessage(tag::kGraph, std::move(written));
  }
  if (islands_->rescues.empty() || out.size() > kLargestMessage) {
    islands_->rescues.clear();
    return Status();
  }
  casts_.resize(islands_->rescues.size());
  for (std::size_t i = 0; i < casts_.size(); ++i) {
    islands_->rescues[i].cost = std::to_string(casts_[i]) + (casts_[i] == 1 ? " Cast" : " Casts");
  }
  islands_->bytes = out.Gather();
  islands_->refers_to_file = references_.count() != 0;
  return Status();
}

void IslandMaker::Define(std::string_view graph, const Types& given, TypedValues* values,
                         std::map<std::string_view, ValueType>* declared) {
  std::size_t input = 0;
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kGraphInput: {
        auto [name, type] = ReadNamedType(field.Bytes());
        if (type == 0 && input < given.size()) type = given[input];
        ++input;
        values->Define(name, {.type = type});
        break;
      }
      case tag::kGraphInitializer: {
        const auto [name, value] = ReadTensorHead(field.Bytes());
        values->Define(name, {.type = value.element_type});
        break;
      }
      case tag::kGraphSparseInitializer: {
        const auto [name, value] = ReadTensorHead(ReadText(field.Bytes(), tag::kSparseValues));
        values->Define(name, {.type = value.element_type});
        break;
      }
      case tag::kGraphOutput:
      case tag::kGraphValueInfo: declared->insert(ReadNamedType(field.Bytes())); break;
    }
  }
}

Status IslandMaker::WriteGraph(std::string_view graph, TypedValues* values, const Types& given,
                               int depth, Rope* out, Types* results) {
  if (depth > kMaximumDepth) return NestedTooDeep(request_.origin);
  std::map<std::string_view, ValueType> declared;
  Define(graph, given, values, &declared);
  Names outputs;
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraphOutput) {
      outputs.push_back(ReadText(field.Bytes(), tag::kValueName));
    }
    if (field.tag() == tag::kGraphNode) {
      Status status = AddNode(field, declared, values, depth, out);
      if (!status.ok()) return status;
      continue;
    }
    Rope tensor;
    if (field.tag() == tag::kGraphInitializer && references_.Write(field.Bytes(), &tensor)) {
      out->AddMessage(field.tag(), std::move(tensor));
      continue;
    }
    out->Borrow(field.slice());
  }
  for (const std::string_view output : outputs) {
    const auto found = declared.find(output);
    const ValueType type = values->TypeOf(output);
    results->push_back(type != 0 || found == declared.end() ? type : found->second);
    values->Own(output);
  }
  out->Append(values->TakeCasts());
  return Status();
}

Status IslandMaker::AddNode(const Field& field,
                            const std::map<std::string_view, ValueType>& declared,
                            TypedValues* values, int depth, Rope* out) {
  const NodeParts node(field.Bytes());
  Types inputs;
  for (const std::string_view input : node.inputs) inputs.push_back(values->TypeOf(input));
  const bool is_onnx = IsDefaultDomain(node.head.domain) && IsOnnxOperator(node.head.op_type) &&
                       !functions_.contains({Normalized(node.head.domain), node.head.op_type});
  Types outputs = is_onnx ? InferTypes(node, opset_, inputs) : Types(node.outputs.size());
  bool is_known = is_onnx && node.head.op_type != "Constant";
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (const auto found = declared.find(node.outputs[i]); outputs[i] == 0) {
      if (found != declared.end()) outputs[i] = found->second;
    }
    is_known &= outputs[i] != 0 || node.outputs[i].empty();
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    is_known &= inputs[i] != 0 || node.inputs[i].empty();
  }
  const auto keep = [&] { return Keep(node, field.slice(), outputs, values, depth, out); };
  if (!is_known) return keep();
  const Widening widening = WideningOf(node);
  // What neighbours have computed in a wider type is moved in it, without a Cast.
  const bool follows =
      !request_.rounds_each && widening.moves &&
      std::any_of(node.inputs.begin(), node.inputs.end(),
                  [&](std::string_view input) { return values->RawType(input) != 0; });
  const bool is_native = kernels_->Has(node, node.attributes, inputs, outputs);
  Island island;
  if ((follows || !is_native) && FindIsland(node, inputs, outputs, &island)) {
    WriteIsland(node, inputs, outputs, island, values, out);
    return Status();
  }
  if (!is_native) Refuse(node, inputs, outputs);
  return keep();
}

bool IslandMaker::FindIsland(const NodeParts& node, const Types& inputs, const Types& outputs,
                             Island* island) {
  for (const Wider& wider : WiderTypes(node, inputs, outputs)) {
    Types types;
    for (const ValueType input : inputs) types.push_back(wider.Of(input));
    Island found = {.wider = wider, .outputs = {}, .attributes = node.attributes};
    NodeParts changed = node;
    const std::string_view said = TypeAttribute(node.head.op_type);
    for (std::string_view& attribute : changed.attributes) {
      if (said.empty() || ReadText(attribute, tag::kAttributeName) != said) continue;
      const std::int64_t type = node.Integer(said, 0);
      if (wider.Of(type) == type) continue;
      std::string& made = made_.emplace_back();
      protozero::pbf_writer writer(made);
      writer.add_string(tag::kAttributeName, said.data(), said.size());
      writer.add_int64(tag::kAttributeInt, wider.Of(type));
      writer.add_enum(tag::kAttributeType, tag::kInt);
      attribute = made;
    }
    found.attributes = changed.attributes;
    found.outputs = InferTypes(changed, opset_, types);
    bool is_right = true;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      is_right &= node.outputs[i].empty() || found.outputs[i] == wider.Of(outputs[i]);
    }
    if (!is_right || (types == inputs && found.outputs == outputs)) continue;
    if (!kernels_->Has(node, found.attributes, types, found.outputs)) continue;
    *island = std::move(found);
    return true;
  }
  return false;
}

void IslandMaker::WriteIsland(const NodeParts& node, const Types& inputs, const Types& outputs,
                              const Island& island, TypedValues* values, Rope* out) {
  const Widening widening = WideningOf(node);
  const std::size_t number = islands_->rescues.size();
  Changed changed;
  std::set<ValueType> narrow;
  ValueType wide = 0;
  const auto note = [&](ValueType from, ValueType to) {
    if (from == to) return;
    narrow.insert(from);
    wide = to;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string_view name = node.inputs[i];
    const ValueType type = island.wider.Of(inputs[i]);
    note(inputs[i], type);
    if (type == inputs[i]) {
      changed.inputs.push_back(values->Own(name));
      continue;
    }
    // Integers have to be cut to their own type, in which they may have overflowed.
    const bool is_float = type == island.wider.floats;
    const bool needs_exact =
        request_.rounds_each || widening.needs_rounded || (!is_float && !widening.moves);
    changed.inputs.push_back(needs_exact ? values->Exact(name, type, number)
                                         : values->Raw(name, type, number));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string_view name = node.outputs[i];
    note(outputs[i], island.outputs[i]);
    if (name.empty() || island.outputs[i] == outputs[i]) {
      changed.outputs.push_back(name);
      if (!name.empty()) values->Define(name, {.type = outputs[i]});
      continue;
    }
    const std::string_view raw = names_->New(name, "." + TypeName(island.outputs[i]));
    changed.outputs.push_back(raw);
    values->Define(name, {.type = outputs[i],
                          .is_narrow = false,
                          .raw = raw,
                          .raw_type = island.outputs[i],
                          .island = number});
  }
  const std::string_view said = TypeAttribute(node.head.op_type);
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    if (island.attributes[i] == node.attributes[i]) continue;
    changed.attributes[said].Borrow(island.attributes[i]);
  }
  Write(node, std::move(changed), values, out);
  std::string types;
  for (const ValueType type : narrow) types += (types.empty() ? "" : ", ") + TypeName(type);
  islands_->rescues.push_back({.node = NodeName(node.bytes, node.head),
                               .operator_name = std::string(node.head.op_type),
                               .rung = TypeName(wide) + " instead of " + types,
                               .cost = "",  // known at the end
                               .native_from = "a kernel for " + types + " in ONNX Runtime"});
}

Status IslandMaker::Keep(const NodeParts& node, std::string_view slice, const Types& outputs,
                         TypedValues* values, int depth, Rope* out) {
  Changed changed;
  Types types = outputs;
  // What is computed in a wider type goes on to a Cast into that type as it is.
  const std::int64_t to = node.head.op_type == "Cast" ? node.Integer("to", 0) : 0;
  const bool takes_raw = !request_.rounds_each && IsDefaultDomain(node.head.domain) &&
                         node.inputs.size() == 1 &&
                         values->RawType(node.inputs[0]) == element::kFloat32 &&
                         (to == element::kFloat32 || to == element::kFloat64);
  const bool takes_any = IsDefaultDomain(node.head.domain) && WideningOf(node).reads_shape;
  for (const std::string_view input : node.inputs) {
    changed.inputs.push_back(takes_raw   ? values->Raw(input, element::kFloat32, 0)
                             : takes_any ? values->Any(input)
                                         : values->Own(input));
  }
  Status status = WriteGraphs(node, values, depth, &changed, &types);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) values->Define(node.outputs[i], {.type = types[i]});
  }
  if (changed.inputs == node.inputs && changed.attributes.empty()) {
    out->Append(values->TakeCasts());
    out->Borrow(slice);
    return Status();
  }
  changed.outputs = node.outputs;
  Write(node, std::move(changed), values, out);
  return Status();
}

Status IslandMaker::WriteGraphs(const NodeParts& node, TypedValues* values, int depth,
                                Changed* changed, Types* outputs) {
  const std::string_view name = IsDefaultDomain(node.head.domain) ? node.head.op_type : "";
  Types given;
  if (name == "Loop") {
    given = {element::kInt64, element::kBool};
    for (std::size_t i = 2; i < node.inputs.size(); ++i) {
      given.push_back(values->TypeOf(node.inputs[i]));
    }
  }
  if (name == "Scan" && opset_ >= 9) {
    for (const std::string_view input : node.inputs) given.push_back(values->TypeOf(input));
  }
  // A Loop's condition is an output of its graph, but not of the node.
  const std::size_t skipped = name == "Loop" ? 1 : 0;
  const bool tells_outputs = name == "If" || name == "Loop" || (name == "Scan" && opset_ >= 9);
  for (const std::string_view attribute : node.attributes) {
    Rope written;
    bool has_graph = false;
    for (FieldReader reader(attribute); reader.Next();) {
      const Field& field = reader.field();
      if (field.tag() != tag::kAttributeGraph && field.tag() != tag::kAttributeGraphs) {
        written.Borrow(field.slice());
        continue;
      }
      has_graph = true;
      Rope graph;
      Types results;
      TypedValues inner(values, names_, &casts_);
      Status status = WriteGraph(field.Bytes(), &inner, given, depth + 1, &graph, &results);
      if (!status.ok()) return status;
      written.AddMessage(field.tag(), std::move(graph));
      for (std::size_t i = 0; tells_outputs && i < outputs->size(); ++i) {
        ValueType& type = (*outputs)[i];
        if (type == 0 && i + skipped < results.size()) type = results[i + skipped];
      }
    }
    if (has_graph) {
      changed->attributes[ReadText(attribute, tag::kAttributeName)] = std::move(written);
    }
  }
  return Status();
}

void IslandMaker::Write(const NodeParts& node, Changed changed, TypedValues* values, Rope* out) {
  Rope written;
  std::string names;
  protozero::pbf_writer writer(names);
  for (const std::string_view input : changed.inputs) {
    writer.add_string(tag::kNodeInput, input.data(), input.size());
  }
  for (const std::string_view output : changed.outputs) {
    writer.add_string(tag::kNodeOutput, output.data(), output.size());
  }
  written.Own(std::move(names));
  for (FieldReader reader(node.bytes); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kNodeInput || field.tag() == tag::kNodeOutput) continue;
    const auto attribute =
        field.tag() == tag::kNodeAttribute
            ? changed.attributes.find(ReadText(field.Bytes(), tag::kAttributeName))
            : changed.attributes.end();
    if (attribute == changed.attributes.end()) {
      written.Borrow(field.slice());
      continue;
    }
    written.AddMessage(tag::kNodeAttribute, std::exchange(attribute->second, Rope()));
  }
  out->Append(values->TakeCasts());
  out->AddMessage(tag::kGraphNode, std::move(written));
}

void IslandMaker::Refuse(const NodeParts& node, const Types& inputs, const Types& outputs) {
  std::set<ValueType> types(inputs.begin(), inputs.end());
  types.insert(outputs.begin(), outputs.end());
  types.erase(0);
  std::string names;
  bool has_wider = false;
  for (const ValueType type : types) {
    names += (names.empty() ? "" : ", ") + TypeName(type);
    has_wider |= HasWider(type);
  }
  std::string reason = "there is no kernel for its types (" + names + ")";
  if (!has_wider) {
    reason += ", and none of them has a wider type that holds the same values";
  } else if (WiderTypes(node, inputs, outputs).empty()) {
    reason += ", and in wider types its result could be another one";
  } else {
    reason += ", nor for wider types in which its result is the same";
  }
  islands_->refused.push_back({.node = NodeName(node.bytes, node.head),
                               .operator_name = std::string(node.head.op_type),
                               .reason = std::move(reason)});
}

}  // namespace

Status MakeIslands(const IslandsRequest& request, Islands* islands) {
  *islands = Islands();
  Status status = ReadModel(request.model, request.origin, request.runtime_version, "rescue",
                            [&] { return IslandMaker(request, islands).Run(); });
  if (!status.ok()) *islands = Islands();
  return status;
}

std::string WhyRefused(const std::vector<Refused>& refused, std::string_view runtime_version) {
  constexpr std::size_t kMostNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(refused.size(), kMostNamed); ++i) {
    text += (i == 0 ? "ONNX Runtime " + std::string(runtime_version) + " cannot run node '"
                    : "; nor node '") +
            refused[i].node + "' (" + refused[i].operator_name + "): " + refused[i].reason;
  }
  if (refused.size() > kMostNamed) {
    text += "; nor " + std::to_string(refused.size() - kMostNamed) + " other nodes";
  }
  return text.empty() ? text
                      : text +
                            ". Fix: export the model in float32 or in int32, or install a newer "
                            "ONNX Runtime";
}

}  // namespace opgraft::model
