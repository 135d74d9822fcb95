// Reads a model's functions and examines their nodes. Nothing is written here.
#include "model/functions.h"

#include <algorithm>
#include <utility>

#include "model/fields.h"
#include "model/graphs.h"
#include "model/onnx_tags.h"
#include "model/opset_changes.h"

namespace opgraft::model {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

const OpsetImport* FindImport(const std::vector<OpsetImport>& imports, std::string_view domain) {
  const auto found = std::find_if(imports.begin(), imports.end(), [&](const OpsetImport& import) {
    return Normalized(import.domain) == Normalized(domain);
  });
  return found != imports.end() ? &*found : nullptr;
}

/// Calls `visit` with the nodes of the graphs in the node's attributes, but not deeper.
template <class Visit>
void VisitInnerNodes(std::string_view node, const Visit& visit) {
  VisitGraphsOf(node, [&](std::string_view graph, std::string_view) {
    for (FieldReader reader(graph); reader.Next();) {
      if (reader.field().tag() == tag::kGraphNode) visit(reader.field().Bytes());
    }
  });
}

}  // namespace

Function ReadFunction(std::string_view bytes) {
  Function function;
  function.bytes = bytes;
  for (FieldReader reader(bytes); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kFunctionName: function.name = field.Bytes(); break;
      case tag::kFunctionDomain: function.domain = field.Bytes(); break;
      case tag::kFunctionOverload: function.overload = field.Bytes(); break;
      case tag::kFunctionInput: function.inputs.push_back(field.Bytes()); break;
      case tag::kFunctionOutput: function.outputs.push_back(field.Bytes()); break;
      case tag::kFunctionNode: function.nodes.push_back(field.Bytes()); break;
      case tag::kFunctionValueInfo: function.value_infos.push_back(field.Bytes()); break;
      case tag::kFunctionAttributeDefault:
        function.defaults.emplace(ReadText(field.Bytes(), tag::kAttributeName), field.Bytes());
        break;
      case tag::kFunctionOpsetImport:
        function.imports.push_back(ReadOpsetImport(field.Bytes()));
        break;
    }
  }
  return function;
}

std::string Function::FullName() const {
  return std::string(domain) + (domain.empty() ? "" : ".") + std::string(name) +
         (overload.empty() ? "" : ":") + std::string(overload);
}

Status Functions::Read(std::string_view model, std::string_view origin, const IsOurs& is_ours,
                       const IsAnother& is_another, bool inlines_all) {
  std::vector<OpsetImport> imports;
  std::vector<std::string_view> graphs;
  for (FieldReader reader(model); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kFunctions) functions_.push_back(ReadFunction(field.Bytes()));
    if (field.tag() == tag::kGraph) graphs.push_back(field.Bytes());
    if (field.tag() == tag::kOpsetImport) imports.push_back(ReadOpsetImport(field.Bytes()));
  }
  if (functions_.empty()) return Status();
  for (Index i = 0; i < functions_.size(); ++i) {
    const Function& function = functions_[i];
    const Key key = {Normalized(function.domain), function.name, function.overload};
    const auto [found, is_new] = by_key_.emplace(key, i);
    if (!is_new) doubled_.insert(found->second);
  }
  contents_.resize(functions_.size());
  for (Index i = 0; i < functions_.size(); ++i) {
    for (const std::string_view node : functions_[i].nodes) Look(node, is_ours, &contents_[i]);
  }
  Contents of_the_graph;  // a call may pass a graph to a function, and that may hold our nodes too
  for (const std::string_view graph : graphs) {
    for (FieldReader reader(graph); reader.Next();) {
      if (reader.field().tag() == tag::kGraphNode) {
        Look(reader.field().Bytes(), is_ours, &of_the_graph);
      }
    }
  }
  if (Status status = CheckForCycles(origin); !status.ok()) return status;
  SpreadInlining(inlines_all);
  return CheckImports(origin, imports, is_another);
}

const Functions::Index* Functions::Find(const NodeHead& head) const {
  const auto found = by_key_.find({Normalized(head.domain), head.op_type, head.overload});
  return found != by_key_.end() ? &found->second : nullptr;
}

const Function* Functions::FindInlined(const NodeHead& head) const {
  if (inlined_.empty()) return nullptr;
  const Index* const index = Find(head);
  return index != nullptr && inlined_.count(*index) != 0 ? &functions_[*index] : nullptr;
}

/// Not recursive, because the depth of nesting is checked only when graphs are written.
void Functions::Look(std::string_view node, const IsOurs& is_ours, Contents* contents) {
  struct Pending {
    std::string_view node;
    Index handed_to;  // the function that a call passes this node to, in a graph, or kNone
  };
  std::vector<Pending> pending = {{node, kNone}};
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    const NodeHead head = ReadHead(next.node);
    const bool ours = is_ours(next.node, head);
    const Index* const called = ours ? nullptr : Find(head);
    contents->has_ours |= ours;
    if (ours) contents->ours.emplace(head.domain, head.op_type);
    if (called != nullptr) contents->calls.insert(*called);
    if (next.handed_to != kNone) {
      Contents& receiver = contents_[next.handed_to];
      receiver.has_ours |= ours;
      if (called != nullptr) receiver.calls.insert(*called);
    }
    if (!ours && called == nullptr) contents->others.emplace(head.domain, head.op_type, next.node);
    const Index handed_to = called != nullptr ? *called : next.handed_to;
    VisitInnerNodes(next.node,
                    [&](std::string_view inner) { pending.push_back({inner, handed_to}); });
  }
}

Status Functions::CheckForCycles(std::string_view origin) const {
  enum class State { kNew, kOpen, kDone };
  struct Step {
    Index function;
    std::set<Index>::const_iterator next;
  };
  std::vector<State> states(functions_.size(), State::kNew);
  for (Index start = 0; start < functions_.size(); ++start) {
    if (states[start] != State::kNew) continue;
    std::vector<Step> path = {{start, contents_[start].calls.begin()}};
    states[start] = State::kOpen;
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next == contents_[step.function].calls.end()) {
        states[step.function] = State::kDone;
        path.pop_back();
        continue;
      }
      const Index called = *step.next++;
      if (states[called] == State::kNew) {
        states[called] = State::kOpen;
        path.push_back({called, contents_[called].calls.begin()});
      } else if (states[called] == State::kOpen) {
        std::string cycle;
        auto open = std::find_if(path.begin(), path.end(),
                                 [&](const Step& entry) { return entry.function == called; });
        for (; open != path.end(); ++open) cycle += functions_[open->function].FullName() + " -> ";
        return Status::Model(std::string(origin) + ": its functions call one another in a cycle: " +
                             cycle + functions_[called].FullName());
      }
    }
  }
  return Status();
}

/// A function that calls one that must be inlined must be inlined too.
void Functions::SpreadInlining(bool inlines_all) {
  std::vector<std::vector<Index>> callers(functions_.size());
  std::vector<Index> pending;
  for (Index i = 0; i < functions_.size(); ++i) {
    for (const Index called : contents_[i].calls) callers[called].push_back(i);
    if (contents_[i].has_ours || inlines_all) pending.push_back(i);
  }
  while (!pending.empty()) {
    const Index next = pending.back();
    pending.pop_back();
    if (!inlined_.insert(next).second) continue;
    inlined_bytes_.insert(functions_[next].bytes.data());
    pending.insert(pending.end(), callers[next].begin(), callers[next].end());
  }
}

Status Functions::CheckImports(std::string_view origin, const std::vector<OpsetImport>& imports,
                               const IsAnother& is_another) {
  for (const Index index : inlined_) {
    const Function& function = functions_[index];
    const std::string who =
        std::string(origin) + ", function '" + function.FullName() +
        "', which must be inlined because it contains operators that Opgraft runs: ";
    if (doubled_.count(index) != 0) {
      return Status::Model(who + "the model has two functions with that name");
    }
    for (const auto& [domain, op_type] : contents_[index].ours) {
      const OpsetImport* const own = FindImport(function.imports, domain);
      NodeHead head;
      head.domain = domain;
      head.op_type = op_type;
      if (own == nullptr || !is_another(head, own->version)) continue;
      return Status::Model(who + "it uses version " + std::to_string(own->version) + " of '" +
                           std::string(domain) + "', in which " + std::string(op_type) +
                           " is not the same operator as in the version that the model or another "
                           "function imports. Fix: import the same version everywhere");
    }
    for (const auto& [domain, op_type, node] : contents_[index].others) {
      const OpsetImport* const own = FindImport(function.imports, domain);
      if (own == nullptr) continue;
      const OpsetImport* const models = FindImport(imports, domain);
      if (models == nullptr) {
        // Another function may need another version of the domain: these must agree as well.
        const OpsetImport* const added = FindImport(missing_imports_, domain);
        if (added == nullptr) missing_imports_.push_back(*own);
        if (added == nullptr || added->version == own->version) continue;
      }
      const std::int64_t version =
          (models != nullptr ? models : FindImport(missing_imports_, domain))->version;
      const auto [older, newer] = std::minmax(own->version, version);
      const bool is_same = older == newer || (IsDefaultDomain(domain) &&
                                              Difference(node, op_type, older, newer).empty());
      if (is_same) continue;
      return Status::Model(
          who + "it uses " + std::string(op_type) + " of opset " + std::to_string(own->version) +
          (IsDefaultDomain(domain) ? "" : " of '" + std::string(domain) + "'") +
          ", but the model imports opset " + std::to_string(version) +
          ", and the operator is not known to be the same in both. Fix: export the model and its "
          "functions for one opset, or inline them first: "
          "onnx.inliner.inline_local_functions(model, convert_version=True)");
    }
  }
  return Status();
}

}  // namespace opgraft::model
