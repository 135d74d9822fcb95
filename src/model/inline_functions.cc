// Renames values and nodes, and replaces references to attributes with the attributes.
#include "model/inline_functions.h"

#include <algorithm>
#include <iterator>
#include <protozero/pbf_writer.hpp>
#include <set>

#include "model/fields.h"
#include "model/graphs.h"
#include "model/nesting.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// Functions that call one another twice at each level turn a small model into a huge one.
constexpr std::size_t kMostNodes = 1'000'000;
/// Large attributes, names and shapes in a function that is called often do the same. A large model
/// may exceed this by a few copies of itself, because its functions may be nested.
constexpr std::size_t kMostCopied = std::size_t{256} << 20U;
constexpr std::size_t kMostCopies = 4;
/// Each node adds what small nodes need; their number is limited separately.
constexpr std::size_t kNodeAllowance = 512;
/// The cost of storing a field of a few bytes.
constexpr std::size_t kFieldCost = 32;

std::string TextField(std::uint32_t tag, std::string_view text) {
  std::string field;
  protozero::pbf_writer(field).add_string(tag, text.data(), text.size());
  return field;
}

/// Returns the name of a sparse tensor, which is the name of its values.
std::string_view ReadSparseName(std::string_view tensor) {
  return ReadText(ReadText(tensor, tag::kSparseValues), tag::kTensorName);
}

/// Returns the message with another text in the field `tag`.
Rope WithText(std::string_view message, std::uint32_t tag, std::string_view text) {
  Rope out;
  for (FieldReader reader(message); reader.Next();) {
    if (reader.field().tag() != tag) out.Borrow(reader.field().slice());
  }
  out.Own(TextField(tag, text));
  return out;
}

/// Calls `define` with each name that a graph defines, except in nested graphs.
template <class Define>
void VisitDefinitions(std::string_view graph, const Define& define) {
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kGraphInput: define(ReadText(field.Bytes(), tag::kValueName)); break;
      case tag::kGraphInitializer: define(ReadText(field.Bytes(), tag::kTensorName)); break;
      case tag::kGraphSparseInitializer: define(ReadSparseName(field.Bytes())); break;
      case tag::kGraphNode:
        for (FieldReader node(field.Bytes()); node.Next();) {
          if (node.field().tag() == tag::kNodeOutput) define(node.field().Bytes());
        }
        break;
    }
  }
}

std::string WriteIdentity(std::string_view input, std::string_view output) {
  return TextField(tag::kNodeInput, input) + TextField(tag::kNodeOutput, output) +
         TextField(tag::kNodeOpType, "Identity");
}

}  // namespace

const std::string_view* Inliner::Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    const auto found = scope->values.find(name);
    if (found != scope->values.end()) return &found->second;
  }
  return nullptr;
}

Inliner::Inliner(std::string_view graph, std::string_view origin, std::size_t model_size)
    : origin_(origin), most_copied_(kMostCopied + kMostCopies * model_size) {
  NoteNames(graph);
}

std::size_t Inliner::MostCopied() const { return most_copied_ + nodes_ * kNodeAllowance; }

Status Inliner::Charge(std::size_t bytes) {
  copied_ += bytes;
  if (!IsOverdrawn()) return Status();
  return Status::Model(
      std::string(origin_) +
      ": inlining its functions, which is necessary because they contain operators "
      "that Opgraft runs, would copy more than " +
      std::to_string(MostCopied()) +
      " bytes. Fix: pass large values to the functions as inputs, not as "
      "attributes");
}

void Inliner::NoteNames(std::string_view graph) {
  VisitGraphs(graph, [&](std::string_view next) {
    VisitDefinitions(next, [&](std::string_view name) { names_.insert(name); });
    for (FieldReader reader(next); reader.Next();) {
      if (reader.field().tag() != tag::kGraphNode) continue;
      for (FieldReader node(reader.field().Bytes()); node.Next();) {
        const Field& field = node.field();
        // A node may read a value that is not defined. Reporting that is left to the runtime.
        if (field.tag() == tag::kNodeName || field.tag() == tag::kNodeInput) {
          names_.insert(field.Bytes());
        }
      }
    }
  });
}

std::string_view Inliner::NewName(const Call& call, std::string_view name) {
  std::string made = call.prefix + std::string(name);
  while (names_.count(made) != 0) made += '_';
  copied_ += made.size();
  names_.insert(new_names_.emplace_back(std::move(made)));
  return new_names_.back();
}

Status Inliner::Refuse(const Call& call, const std::string& why) const {
  return Status::Model(std::string(origin_) + ", function '" + call.function->FullName() +
                       "': " + why);
}

Status Inliner::Expand(const Function& function, std::string_view node, Expansion* expansion) {
  Call call = {&function, std::string(function.name) + "_" + std::to_string(++calls_) + "/", {}};
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kNodeInput) inputs.push_back(field.Bytes());
    if (field.tag() == tag::kNodeOutput) outputs.push_back(field.Bytes());
    if (field.tag() != tag::kNodeAttribute) continue;
    call.attributes[ReadText(field.Bytes(), tag::kAttributeName)] = field.Bytes();
  }
  Scope scope;
  if (Status status = BindValues(call, inputs, outputs, &scope, expansion); !status.ok()) {
    return status;
  }
  std::vector<Expansion::Node> nodes;
  for (const std::string_view body_node : function.nodes) {
    Rope rope;
    bool is_plain = true;
    Status status = WriteNode(call, body_node, scope, 0, &rope, &is_plain);
    if (!status.ok()) return status;
    nodes.push_back({std::move(rope), is_plain ? body_node : std::string_view()});
  }
  // BindValues has already added the nodes that must come after the computed values.
  expansion->nodes.insert(expansion->nodes.begin(), std::make_move_iterator(nodes.begin()),
                          std::make_move_iterator(nodes.end()));
  for (const std::string_view value_info : function.value_infos) {
    const auto [name, value] = ReadValueInfo(value_info);
    const bool is_input =
        std::find(function.inputs.begin(), function.inputs.end(), name) != function.inputs.end();
    const std::string_view* const bound = scope.Find(name);
    if (is_input || bound == nullptr || value.element_type == 0) continue;
    Status status = Charge(value_info.size() + bound->size());
    if (!status.ok()) return status;
    expansion->values.emplace_back(*bound, value);
  }
  return Status();
}

/// Binds each name of the body to its name outside. An output that the body does not compute
/// itself, because it is an input or is listed twice, is copied by an Identity.
Status Inliner::BindValues(const Call& call, const std::vector<std::string_view>& inputs,
                           const std::vector<std::string_view>& outputs, Scope* scope,
                           Expansion* expansion) {
  const Function& function = *call.function;
  if (inputs.size() > function.inputs.size() || outputs.size() > function.outputs.size()) {
    return Refuse(call, "it has " + std::to_string(function.inputs.size()) + " inputs and " +
                            std::to_string(function.outputs.size()) +
                            " outputs, but is called with " + std::to_string(inputs.size()) +
                            " and " + std::to_string(outputs.size()));
  }
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    scope->values[function.inputs[i]] = i < inputs.size() ? inputs[i] : "";
  }
  std::set<std::string_view> computed;
  for (const std::string_view node : function.nodes) {
    for (FieldReader reader(node); reader.Next();) {
      const Field& field = reader.field();
      if (field.tag() != tag::kNodeOutput || field.Bytes().empty()) continue;
      if (scope->values.count(field.Bytes()) != 0) {
        return Refuse(call, "one of its nodes computes '" + std::string(field.Bytes()) +
                                "', which is an input of the function");
      }
      computed.insert(field.Bytes());
    }
  }
  for (std::size_t i = 0; i < function.outputs.size(); ++i) {
    const std::string_view inside = function.outputs[i];
    const std::string_view outside = i < outputs.size() ? outputs[i] : "";
    const auto bound = scope->values.find(inside);
    if (bound == scope->values.end()) {
      if (computed.count(inside) == 0) {
        return Refuse(
            call, "its output '" + std::string(inside) + "' is not computed by any of its nodes");
      }
      scope->values[inside] = outside.empty() ? NewName(call, inside) : outside;
      if (Status status = Charge(0); !status.ok()) return status;
    } else if (!outside.empty()) {
      if (bound->second.empty()) {
        return Refuse(call, "its output '" + std::string(inside) +
                                "' is an input that is absent in the call");
      }
      Status status = Charge(bound->second.size() + outside.size());
      if (!status.ok()) return status;
      expansion->nodes.emplace_back().bytes.Own(WriteIdentity(bound->second, outside));
    }
  }
  for (const std::string_view name : computed) {
    if (scope->values.count(name) == 0) scope->values[name] = NewName(call, name);
    if (Status status = Charge(0); !status.ok()) return status;
  }
  return Status();
}

Status Inliner::WriteNode(const Call& call, std::string_view node, const Scope& scope, int depth,
                          Rope* out, bool* is_plain) {
  if (++nodes_ > kMostNodes) {
    return Status::Model(std::string(origin_) +
                         ": with its functions inlined, which is necessary because they contain "
                         "operators that Opgraft runs, it has more than " +
                         std::to_string(kMostNodes) + " nodes");
  }
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (Status status = Charge(kFieldCost); !status.ok()) return status;
    switch (field.tag()) {
      case tag::kNodeInput:
      case tag::kNodeOutput: {
        const std::string_view* const bound = scope.Find(field.Bytes());
        if (bound == nullptr && !field.Bytes().empty()) {
          return Refuse(call, "one of its nodes uses '" + std::string(field.Bytes()) +
                                  "', which is neither an input of the function nor computed by "
                                  "any of its nodes");
        }
        const std::string_view outside = bound != nullptr ? *bound : "";
        if (Status status = Charge(outside.size()); !status.ok()) return status;
        out->Own(TextField(field.tag(), outside));
        break;
      }
      case tag::kNodeName:
        if (!field.Bytes().empty()) {
          out->Own(TextField(tag::kNodeName, NewName(call, field.Bytes())));
        }
        break;
      case tag::kNodeAttribute: {
        Status status = WriteAttribute(call, field.Bytes(), scope, depth, out, is_plain);
        if (!status.ok()) return status;
        break;
      }
      default: out->Borrow(field.slice());
    }
  }
  return Status();
}

Status Inliner::WriteAttribute(const Call& call, std::string_view attribute, const Scope& scope,
                               int depth, Rope* out, bool* is_plain) {
  const std::string_view name = ReadText(attribute, tag::kAttributeName);
  const std::string_view reference = ReadText(attribute, tag::kAttributeReference);
  if (Status status = Charge(name.size()); !status.ok()) return status;
  std::string_view source = attribute;
  if (!reference.empty()) {
    *is_plain = false;
    const auto given = call.attributes.find(reference);
    if (given != call.attributes.end()) {
      // The names in the attribute's graphs, if it has any, belong to the caller.
      out->AddMessage(tag::kNodeAttribute, WithText(given->second, tag::kAttributeName, name));
      return Status();
    }
    const auto preset = call.function->defaults.find(reference);
    if (preset == call.function->defaults.end()) return Status();  // absent here as well
    source = preset->second;
  }
  Rope written;
  for (FieldReader reader(source); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kAttributeName) continue;
    if (Status status = Charge(kFieldCost); !status.ok()) return status;
    if (field.tag() != tag::kAttributeGraph && field.tag() != tag::kAttributeGraphs) {
      written.Borrow(field.slice());
      continue;
    }
    *is_plain = false;
    Rope graph;
    Status status = WriteGraph(call, field.Bytes(), scope, depth + 1, &graph);
    if (!status.ok()) return status;
    written.AddMessage(field.tag(), std::move(graph));
  }
  written.Own(TextField(tag::kAttributeName, name));
  out->AddMessage(tag::kNodeAttribute, std::move(written));
  return Status();
}

Status Inliner::WriteGraph(const Call& call, std::string_view graph, const Scope& outer, int depth,
                           Rope* out) {
  if (depth > kMaximumDepth) return NestedTooDeep(origin_);
  Scope scope;
  scope.outer = &outer;
  VisitDefinitions(graph, [&](std::string_view name) {
    if (name.empty() || scope.values.count(name) != 0 || IsOverdrawn()) return;
    scope.values[name] = NewName(call, name);
  });
  if (Status status = Charge(0); !status.ok()) return status;
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    if (Status status = Charge(kFieldCost); !status.ok()) return status;
    switch (field.tag()) {
      case tag::kGraphNode: {
        Rope node;
        bool is_plain = true;
        Status status = WriteNode(call, field.Bytes(), scope, depth, &node, &is_plain);
        if (!status.ok()) return status;
        out->AddMessage(field.tag(), std::move(node));
        break;
      }
      case tag::kGraphInput:
      case tag::kGraphOutput:
      case tag::kGraphValueInfo: {
        const std::string_view name = ReadText(field.Bytes(), tag::kValueName);
        const std::string_view* const bound = scope.Find(name);
        // A declaration of an unknown value could accidentally apply to a value of the caller.
        if (bound == nullptr && field.tag() == tag::kGraphValueInfo) break;
        if (bound == nullptr) {
          return Refuse(call, "one of its graphs has the output '" + std::string(name) +
                                  "', which no node computes");
        }
        if (Status status = Charge(bound->size()); !status.ok()) return status;
        out->AddMessage(field.tag(), WithText(field.Bytes(), tag::kValueName, *bound));
        break;
      }
      case tag::kGraphInitializer: {
        const std::string_view* const bound = scope.Find(ReadText(field.Bytes(), tag::kTensorName));
        const std::string_view name = bound != nullptr ? *bound : "";
        if (Status status = Charge(name.size()); !status.ok()) return status;
        out->AddMessage(field.tag(), WithText(field.Bytes(), tag::kTensorName, name));
        break;
      }
      case tag::kGraphSparseInitializer: {
        const std::string_view* const bound = scope.Find(ReadSparseName(field.Bytes()));
        if (Status status = Charge(bound != nullptr ? bound->size() : 0); !status.ok()) {
          return status;
        }
        Rope tensor;
        for (FieldReader sparse(field.Bytes()); sparse.Next();) {
          if (sparse.field().tag() != tag::kSparseValues) {
            tensor.Borrow(sparse.field().slice());
          } else {
            tensor.AddMessage(tag::kSparseValues, WithText(sparse.field().Bytes(), tag::kTensorName,
                                                           bound != nullptr ? *bound : ""));
          }
        }
        out->AddMessage(field.tag(), std::move(tensor));
        break;
      }
      case tag::kGraphQuantizationAnnotation: break;  // only for tools, and full of names
      default: out->Borrow(field.slice());
    }
  }
  return Status();
}

}  // namespace opgraft::model
