// Prepares a model in one pass over its bytes. Unchanged fields, such as weights, are not copied
// until the result is assembled.
#include "model/prepare.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <utility>

#include "model/aten_node.h"
#include "model/constants.h"
#include "model/declared_values.h"
#include "model/fields.h"
#include "model/function_bodies.h"
#include "model/functions.h"
#include "model/inline_functions.h"
#include "model/legacy_aten.h"
#include "model/lowering.h"
#include "model/native_node.h"
#include "model/nesting.h"
#include "model/node_names.h"
#include "model/onnx_tags.h"
#include "model/opset_import.h"
#include "model/our_nodes.h"
#include "model/pyop_node.h"
#include "model/reading.h"
#include "model/rope.h"
#include "model/runtime_limits.h"
#include "model/weight_references.h"

namespace opgraft::model {
namespace {

/// What a graph declares about its values, and the declarations that are added to it.
struct Declarations {
  explicit Declarations(const DeclaredValues* outer, std::string_view graph = {})
      : values(outer), constants(graph) {}

  DeclaredValues values;
  Constants constants;
  Rope added;  // fields of the graph

  void Add(std::string_view name, const DeclaredValue& value) {
    Rope value_info;
    value_info.Own(WriteValueInfo(name, value));
    added.AddMessage(tag::kGraphValueInfo, std::move(value_info));
  }
};

class Preparer {
 public:
  Preparer(std::string_view model, std::string_view origin, std::string_view runtime_version,
           OperatorSource& source, std::string_view file_name, PreparedModel* prepared,
           bool inlines_functions)
      : model_(model),
        origin_(origin),
        runtime_version_(runtime_version),
        limits_(LimitsOf(RuntimeVersion::Parse(runtime_version))),
        prepared_(prepared),
        ours_(source, limits_, runtime_version),
        lowering_(limits_),
        references_(model, limits_.takes_folder ? file_name : std::string_view()),
        inlines_functions_(inlines_functions) {}

  Status Run();

 private:
  /// Each Rewrite* function adds the rewritten message to `out`, and sets `changed` if it differs.
  /// `outer` has the declarations of the enclosing graphs; nullptr if there are none.
  Status RewriteGraph(std::string_view graph, const DeclaredValues* outer, int depth, Rope* out,
                      bool* changed);
  /// Adds the rewritten node to its graph. `slice` is the node as a field of the original graph;
  /// empty for a node of an inlined call.
  Status AddNode(std::string_view node, std::string_view slice, int depth, Declarations* declared,
                 Rope* graph, bool* changed);
  Status AddCall(const Function& function, std::string_view call, int depth, Declarations* declared,
                 Rope* graph);
  /// Whether a node belongs to the body of its own operator, which means the operator's previous
  /// version.
  bool IsWithinItsBody(const NodeHead& head) const {
    return std::find(bodies_.begin(), bodies_.end(), head.op_type) != bodies_.end();
  }
  /// Returns the opset version of a node that a body must replace; 0 for any other node.
  std::int64_t VersionForBody(std::string_view node, const NodeHead& head) {
    if (IsWithinItsBody(head)) return 0;
    const std::int64_t version = lowering_.VersionForBody(node, head);
    return version == 0 || ours_.Has(head) || functions_.IsCall(head) ? 0 : version;
  }
  /// Adds the body of the node's operator in its place.
  [[gnu::noinline]] Status AddBody(std::string_view node, const NodeHead& head,
                                   std::int64_t version, int depth, Declarations* declared,
                                   Rope* graph);
  Status RewriteNode(std::string_view node, const NodeHead& head, int depth, Declarations* declared,
                     Rope* out, bool* changed);
  /// Separate from RewriteNode, whose stack frames exist once for each nested graph.
  [[gnu::noinline]] Status RewriteOurs(std::string_view node, const NodeHead& head,
                                       Declarations* declared, Rope* out, bool* changed);
  /// The same for an operator of a pack.
  [[gnu::noinline]] Status RewriteNative(std::string_view node, const NodeHead& head,
                                         const Schema& schema, const DeclaredValues& declared,
                                         Rope* out, bool* changed);
  Status RewriteAttribute(std::string_view attribute, const DeclaredValues& outer, int depth,
                          Rope* out, bool* changed);
  Status RewriteFunction(std::string_view function, Rope* out, bool* changed);
  Status RewriteAten(std::string_view node, const NodeHead& head, Declarations* declared, Rope* out,
                     bool* changed);
  void RewriteOpsetImport(const Field& field, Rope* out, bool* changed);
  void NoteExternalData(std::string_view tensor);
  void Report(pyop::Spec spec);

  const std::string_view model_;
  const std::string_view origin_;
  const std::string_view runtime_version_;
  const RuntimeLimits limits_;
  PreparedModel* const prepared_;
  OurNodes ours_;
  Lowering lowering_;
  WeightReferences references_;
  const bool inlines_functions_;
  Functions functions_;
  NodeNames names_;
  std::string_view graph_;
  std::unique_ptr<Inliner> inliner_;
  std::vector<std::string_view> bodies_;             // bodies around the node that is being added
  std::size_t added_ = 0;                            // nodes of bodies
  std::map<std::string_view, std::int64_t> needed_;  // domains of packs, with their versions
  std::deque<std::string> made_nodes_;  // the storage of ropes and views of inlined nodes
};

Status Preparer::Run() {
  Rope out;
  bool changed = false;
  bool has_graph = false;
  bool has_opset = false;
  std::set<std::string_view> imported;
  ours_.Read(model_);
  lowering_.Read(model_);
  const auto is_ours = [this](std::string_view node, const NodeHead& head) {
    return ours_.Has(head) || VersionForBody(node, head) != 0;
  };
  const auto is_another = [this](const NodeHead& head, std::int64_t version) {
    return ours_.IsAnother(head, version);
  };
  Status read = functions_.Read(model_, origin_, is_ours, is_another, inlines_functions_);
  if (!read.ok()) return read;
  for (FieldReader reader(model_); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kIrVersion:
        if (field.Integer() > kNewestKnownIr) return IrIsUnknown(origin_, field.Integer());
        if (field.Integer() > limits_.ir_version) {
          std::string lowered;
          protozero::pbf_writer(lowered).add_int64(tag::kIrVersion, limits_.ir_version);
          out.Own(std::move(lowered));
          changed = true;
        } else {
          out.Borrow(field.slice());
        }
        break;
      case tag::kGraph: {
        if (has_graph) return Status::Model(std::string(origin_) + " has two graphs, expected one");
        has_graph = true;
        names_ = NodeNames(field.Bytes());
        graph_ = field.Bytes();
        Rope graph;
        bool graph_changed = false;
        Status status = RewriteGraph(field.Bytes(), nullptr, 0, &graph, &graph_changed);
        if (!status.ok()) return status;
        out.AddMessage(tag::kGraph, std::move(graph));
        changed |= graph_changed;
        break;
      }
      case tag::kFunctions: {
        if (functions_.IsInlined(field.Bytes())) {
          changed = true;
          break;
        }
        Rope function;
        Status status = RewriteFunction(field.Bytes(), &function, &changed);
        if (!status.ok()) return status;
        out.AddMessage(tag::kFunctions, std::move(function));
        break;
      }
      case tag::kOpsetImport:
        has_opset = true;
        imported.insert(ReadOpsetImport(field.Bytes()).domain);
        RewriteOpsetImport(field, &out, &changed);
        break;
      default: out.Borrow(field.slice());
    }
  }
  if (!has_graph || !has_opset) {
    return Status::Model(std::string(origin_) +
                         " is not an ONNX model, or is truncated: it has no " +
                         (has_graph ? "opset import" : "graph"));
  }
  std::vector<OpsetImport> imports = functions_.missing_imports();
  for (OpsetImport& import : imports) lowering_.Lower(&import);
  Status lowered = lowering_.Check(origin_, runtime_version_, &prepared_->opset_limit);
  if (!lowered.ok()) return lowered;
  if (!prepared_->python_operators.empty()) needed_[pyop::kDomain] = pyop::kFormat;
  for (const OpsetImport& added : imports) imported.insert(added.domain);
  for (const auto& [domain, version] : needed_) {
    if (imported.count(domain) == 0) imports.push_back({domain, version});
  }
  for (const OpsetImport& added : imports) {
    Rope import;
    import.Own(WriteOpsetImport(added));
    out.AddMessage(tag::kOpsetImport, std::move(import));
    changed = true;
  }
  const std::size_t size = changed ? out.size() : model_.size();
  if (size > kLargestMessage) {
    return Status::Model(std::string(origin_) + " has " + std::to_string(size) + " bytes" +
                         (changed ? " when prepared" : "") +
                         ", but ONNX Runtime takes at most 2 GB. Fix: save it with external data: "
                         "onnx.save(model, path, save_as_external_data=True)");
  }
  if (!changed) return Status();
  prepared_->bytes = out.Gather();
  prepared_->refers_to_original = references_.count() != 0;
  prepared_->needs_file = prepared_->has_external_data && !limits_.takes_folder;
  return Status();
}

Status Preparer::RewriteGraph(std::string_view graph, const DeclaredValues* outer, int depth,
                              Rope* out, bool* changed) {
  if (depth > kMaximumDepth) return NestedTooDeep(origin_);
  Declarations declared(outer, graph);
  declared.values.Read(graph);
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraphNode) {
      Status status = AddNode(field.Bytes(), field.slice(), depth, &declared, out, changed);
      if (!status.ok()) return status;
      continue;
    }
    if (field.tag() == tag::kGraphInitializer) {
      NoteExternalData(field.Bytes());
      Rope tensor;
      if (references_.Write(field.Bytes(), &tensor)) {
        out->AddMessage(field.tag(), std::move(tensor));
        continue;
      }
    }
    out->Borrow(field.slice());
  }
  out->Append(std::move(declared.added));
  return Status();
}

Status Preparer::AddNode(std::string_view node, std::string_view slice, int depth,
                         Declarations* declared, Rope* graph, bool* changed) {
  const NodeHead head = ReadHead(node);
  if (functions_.AnyInlined()) {
    const Function* const called = ours_.Has(head) ? nullptr : functions_.FindInlined(head);
    if (called != nullptr) {
      *changed = true;
      return AddCall(*called, node, depth, declared, graph);
    }
  }
  if (const std::int64_t version = VersionForBody(node, head); version != 0) {
    *changed = true;
    return AddBody(node, head, version, depth, declared, graph);
  }
  added_ += static_cast<std::size_t>(!bodies_.empty());
  Rope rewritten;
  bool node_changed = false;
  const std::size_t references = references_.count();
  Status status = RewriteNode(node, head, depth, declared, &rewritten, &node_changed);
  if (!status.ok()) return status;
  *changed |= node_changed;
  node_changed |= references_.count() != references;  // in nested graphs
  if (!node_changed && !slice.empty()) {
    graph->Borrow(slice);
    return Status();
  }
  if (!node_changed) {
    rewritten = Rope();
    rewritten.Borrow(node);
  }
  graph->AddMessage(tag::kGraphNode, std::move(rewritten));
  return Status();
}

Status Preparer::AddCall(const Function& function, std::string_view call, int depth,
                         Declarations* declared, Rope* graph) {
  if (depth > kMaximumDepth) return NestedTooDeep(origin_);
  Expansion expansion;
  if (inliner_ == nullptr) inliner_ = std::make_unique<Inliner>(graph_, origin_, model_.size());
  if (Status status = inliner_->Expand(function, call, &expansion); !status.ok()) return status;
  for (const auto& [name, value] : expansion.values) {
    if (declared->values.Add({name, value})) declared->Add(name, value);
  }
  for (Expansion::Node& node : expansion.nodes) {
    const NodeHead head = node.plain.empty() ? NodeHead() : ReadHead(node.plain);
    bool changed = false;
    if (!node.plain.empty() && !ours_.Has(head) && functions_.FindInlined(head) == nullptr &&
        VersionForBody(node.plain, head) == 0) {
      Rope unused;  // the node that is written differs from this one only in names
      Status status = RewriteNode(node.plain, head, depth, declared, &unused, &changed);
      if (!status.ok()) return status;
      graph->AddMessage(tag::kGraphNode, std::move(node.bytes));
      added_ += static_cast<std::size_t>(!bodies_.empty());
      continue;
    }
    Status status = inliner_->Charge(node.bytes.size());
    if (!status.ok()) return status;
    made_nodes_.push_back(node.bytes.Gather());
    status = AddNode(made_nodes_.back(), {}, depth + 1, declared, graph, &changed);
    if (!status.ok()) return status;
  }
  return Status();
}

Status Preparer::AddBody(std::string_view node, const NodeHead& head, std::int64_t version,
                         int depth, Declarations* declared, Rope* graph) {
  std::string& bytes = made_nodes_.emplace_back();
  Status status = FindBody(node, head, version, declared->values, origin_, &bytes);
  if (!status.ok()) return status;
  const Function body = ReadFunction(bytes);
  const std::size_t before = added_;
  bodies_.push_back(head.op_type);
  status = AddCall(body, node, depth, declared, graph);
  bodies_.pop_back();
  if (!status.ok() || !bodies_.empty()) return status;
  const std::string_view domain = Normalized(head.domain);
  prepared_->rescues.push_back(
      {.node = NodeName(node, head),
       .operator_name =
           (domain.empty() ? "" : std::string(domain) + "::") + std::string(head.op_type),
       .rung = "function body",
       .cost = std::to_string(added_ - before) + " nodes",
       .native_from = "an ONNX Runtime that has " + std::string(head.op_type) + " of opset " +
                      std::to_string(version)});
  return Status();
}

Status Preparer::RewriteOurs(std::string_view node, const NodeHead& head, Declarations* declared,
                             Rope* out, bool* changed) {
  if (Status status = CheckAttributes(node, head); !status.ok()) return status;
  PyOpNode read;
  if (head.IsCanonical()) {
    Status status = ReadPyOp(node, &read);
    if (status.ok()) Report(std::move(read.spec));
    return status;
  }
  Status status = ours_.Read(node, head, declared->values, &read);
  if (!status.ok()) return status;
  if (head.name.empty()) read.spec.node = names_.Give(read.spec.node);
  const pyop::Spec& spec = read.spec;
  for (std::size_t i = 0; i < spec.output_types.size(); ++i) {
    const std::string_view output = read.outputs[spec.OutputPlace(i)];
    const bool has_type = declared->values.TypeOf(output) != 0;
    if (output.empty() || has_type || spec.output_types[i] == 0) continue;
    declared->Add(output, {spec.output_types[i], std::nullopt});
  }
  *out = WriteCanonical(&read);
  *changed = true;
  Report(std::move(read.spec));
  return Status();
}

Status Preparer::RewriteNative(std::string_view node, const NodeHead& head, const Schema& schema,
                               const DeclaredValues& declared, Rope* out, bool* changed) {
  if (Status status = CheckAttributes(node, head); !status.ok()) return status;
  const NativeOperator& native = *schema.native;
  std::int64_t& needed = needed_[native.runtime_domain];
  needed = std::max(needed, native.domain_version);
  prepared_->native_operators.emplace(schema.FullName(), native.pack);
  return WriteNative(node, head, schema, declared, limits_, out, changed);
}

/// Adds the import of the node's domain, and declares the types of its outputs. A node in our
/// encoding is not changed.
Status Preparer::RewriteAten(std::string_view node, const NodeHead& head, Declarations* declared,
                             Rope* out, bool* changed) {
  if (Status status = CheckAttributes(node, head); !status.ok()) return status;
  if (IsLegacyAten(node, head)) {
    std::string& made = made_nodes_.emplace_back();
    Status status = ConvertLegacyAten(node, head, declared->values, declared->constants, &made);
    if (!status.ok()) return status;
    node = made;
    *changed = true;
  }
  out->Borrow(node);
  AtenNode read;
  Status status = ReadAten(node, head, &read);
  if (!status.ok()) return status;
  needed_[kAtenDomain] = 1;
  for (std::size_t i = 0; i < read.outputs.size() && i < read.said.size(); ++i) {
    const std::string_view output = read.outputs[i];
    if (output.empty() || declared->values.TypeOf(output) != 0) continue;
    const DeclaredValue value = {read.said[i].element_type, std::nullopt};
    declared->Add(output, value);
    declared->values.Add({output, value});
    *changed = true;
  }
  prepared_->aten_operators.insert(std::move(read.operator_name));
  return Status();
}

Status Preparer::RewriteNode(std::string_view node, const NodeHead& head, int depth,
                             Declarations* declared, Rope* out, bool* changed) {
  if (const Schema* const native = ours_.FindNative(head)) {
    return RewriteNative(node, head, *native, declared->values, out, changed);
  }
  if (IsAten(head)) return RewriteAten(node, head, declared, out, changed);
  if (ours_.Has(head)) return RewriteOurs(node, head, declared, out, changed);
  if (!IsWithinItsBody(head)) lowering_.NoteNode(node, head);
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() != tag::kNodeAttribute) {
      out->Borrow(field.slice());
      continue;
    }
    Rope attribute;
    Status status = RewriteAttribute(field.Bytes(), declared->values, depth, &attribute, changed);
    if (!status.ok()) return status;
    out->AddMessage(tag::kNodeAttribute, std::move(attribute));
  }
  return Status();
}

Status Preparer::RewriteAttribute(std::string_view attribute, const DeclaredValues& outer,
                                  int depth, Rope* out, bool* changed) {
  for (FieldReader reader(attribute); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kAttributeTensor || field.tag() == tag::kAttributeTensors) {
      NoteExternalData(field.Bytes());
    }
    if (field.tag() != tag::kAttributeGraph && field.tag() != tag::kAttributeGraphs) {
      out->Borrow(field.slice());
      continue;
    }
    Rope graph;
    Status status = RewriteGraph(field.Bytes(), &outer, depth + 1, &graph, changed);
    if (!status.ok()) return status;
    out->AddMessage(field.tag(), std::move(graph));
  }
  return Status();
}

void Preparer::Report(pyop::Spec spec) {
  spec.arguments = std::string();  // set if the node was already canonical
  spec.output_shapes = std::vector<pyop::DeclaredShape>();
  prepared_->python_operators.push_back(std::move(spec));
}

void Preparer::NoteExternalData(std::string_view tensor) {
  for (FieldReader reader(tensor); reader.Next();) {
    prepared_->has_external_data |= reader.field().tag() == tag::kTensorDataLocation &&
                                    reader.field().Integer() == tag::kExternal;
  }
}

/// Rewrites a function that stays in the model: it contains none of our nodes.
Status Preparer::RewriteFunction(std::string_view function, Rope* out, bool* changed) {
  for (FieldReader reader(function); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kFunctionOpsetImport) {
      RewriteOpsetImport(field, out, changed);
      continue;
    }
    if (field.tag() == tag::kFunctionNode) {
      Rope node;
      Declarations declared(nullptr);
      const NodeHead head = ReadHead(field.Bytes());
      Status status = RewriteNode(field.Bytes(), head, 0, &declared, &node, changed);
      if (!status.ok()) return status;
    }
    out->Borrow(field.slice());
  }
  return Status();
}

void Preparer::RewriteOpsetImport(const Field& field, Rope* out, bool* changed) {
  OpsetImport import = ReadOpsetImport(field.Bytes());
  if (!lowering_.Lower(&import)) return out->Borrow(field.slice());
  Rope lowered;
  lowered.Own(WriteOpsetImport(import));
  out->AddMessage(field.tag(), std::move(lowered));
  *changed = true;
}

}  // namespace

Status Prepare(std::string_view model, std::string_view origin, std::string_view runtime_version,
               OperatorSource& operators, PreparedModel* prepared, std::string_view file_name,
               bool inlines_functions) {
  *prepared = PreparedModel();
  return ReadModel(model, origin, runtime_version, "prepare", [&] {
    return Preparer(model, origin, runtime_version, operators, file_name, prepared,
                    inlines_functions)
        .Run();
  });
}

}  // namespace opgraft::model
