// One pass over the model's bytes. Fields that stay as they are, weights among them, are not copied
// until the whole is gathered.
#include "model/prepare.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <utility>

#include "core/element_type.h"
#include "model/declared_node.h"
#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/opset_changes.h"
#include "model/pyop_node.h"
#include "model/rope.h"
#include "model/runtime_limits.h"

namespace opgraft::model {
namespace {

/// Deeper than anything protobuf would parse, shallow enough for any thread's stack.
constexpr int kMaximumDepth = 64;

pyop::DeclaredShape ReadShape(std::string_view shape) {
  std::vector<std::int64_t> dimensions;
  for (FieldReader reader(shape); reader.Next();) {
    if (reader.field().tag() != tag::kDimension) continue;
    std::int64_t value = pyop::kUnknown;
    for (FieldReader dimension(reader.field().Bytes()); dimension.Next();) {
      if (dimension.field().tag() == tag::kDimensionValue) value = dimension.field().Integer();
    }
    dimensions.push_back(value < 0 ? pyop::kUnknown : value);
  }
  return dimensions;
}

std::pair<std::string_view, DeclaredValue> ReadValueInfo(std::string_view value_info) {
  std::string_view name;
  DeclaredValue value;
  for (FieldReader reader(value_info); reader.Next();) {
    if (reader.field().tag() == tag::kValueName) name = reader.field().Bytes();
    if (reader.field().tag() != tag::kValueType) continue;
    for (FieldReader type(reader.field().Bytes()); type.Next();) {
      if (type.field().tag() != tag::kTensorType) continue;
      for (FieldReader tensor(type.field().Bytes()); tensor.Next();) {
        const Field& field = tensor.field();
        if (field.tag() == tag::kElementType) value.element_type = field.Integer();
        if (field.tag() == tag::kTensorShape) value.shape = ReadShape(field.Bytes());
      }
    }
  }
  return {name, value};
}

std::pair<std::string_view, DeclaredValue> ReadTensorHead(std::string_view tensor) {
  std::string_view name;
  DeclaredValue value;
  for (FieldReader reader(tensor); reader.Next();) {
    if (reader.field().tag() == tag::kTensorName) name = reader.field().Bytes();
    if (reader.field().tag() == tag::kTensorDataType) value.element_type = reader.field().Integer();
  }
  return {name, value};
}

/// A ValueInfoProto that gives the type alone: a rank would be taken for the truth.
std::string WriteValueInfo(std::string_view name, std::int64_t element_type) {
  std::string written;
  protozero::pbf_writer value(written);
  value.add_string(tag::kValueName, name.data(), name.size());
  protozero::pbf_writer type(value, tag::kValueType);
  protozero::pbf_writer tensor(type, tag::kTensorType);
  tensor.add_int32(tag::kElementType, static_cast<std::int32_t>(element_type));
  return written;
}

struct OpsetImport {
  std::string_view domain;
  std::int64_t version = 0;
};

OpsetImport ReadOpsetImport(std::string_view bytes) {
  OpsetImport import;
  for (FieldReader reader(bytes); reader.Next();) {
    if (reader.field().tag() == tag::kOpsetDomain) import.domain = reader.field().Bytes();
    if (reader.field().tag() == tag::kOpsetVersion) import.version = reader.field().Integer();
  }
  return import;
}

std::string WriteOpsetImport(const OpsetImport& import) {
  std::string written;
  protozero::pbf_writer writer(written);
  writer.add_string(tag::kOpsetDomain, import.domain.data(), import.domain.size());
  writer.add_int64(tag::kOpsetVersion, import.version);
  return written;
}

class Preparer {
 public:
  Preparer(std::string_view origin, std::string_view runtime_version, OperatorSource& source,
           PreparedModel* prepared)
      : origin_(origin),
        runtime_version_(runtime_version),
        source_(source),
        limits_(LimitsOf(RuntimeVersion::Parse(runtime_version))),
        prepared_(prepared) {}

  Status Run(std::string_view model);

 private:
  /// Each Rewrite* adds to `out` what becomes of the message, and sets `changed` where it differs.
  Status RewriteGraph(std::string_view graph, int depth, Rope* out, bool* changed);
  Status RewriteNode(std::string_view node, const DeclaredValues& declared, int depth, Rope* out,
                     bool* changed, Rope* value_infos);
  /// Writes the canonical node, and the types of its outputs that the graph does not declare.
  void WriteNode(PyOpNode node, const DeclaredValues& declared, Rope* out, Rope* value_infos);
  /// Leaves `schema` alone where the node's operator is not a declared one.
  Status FindDeclared(std::string_view node, const NodeHead& head,
                      std::shared_ptr<const Schema>* schema);
  Status RefusalInFunction(const pyop::Spec& spec) const;
  void ReadModules(std::string_view model);
  Status RewriteAttribute(std::string_view attribute, int depth, Rope* out, bool* changed);
  Status RewriteFunction(std::string_view function, Rope* out, bool* changed);
  void RewriteOpsetImport(const Field& field, Rope* out, bool* changed);
  void NoteOpsets(std::string_view model);
  void NoteDifference(std::string_view node, const NodeHead& head);
  void NoteExternalData(std::string_view tensor);
  Status CheckLoweredOperators() const;
  /// Whether the runtime lets a custom operator have the types that the spec names.
  Status CheckCarried(const pyop::Spec& spec) const;

  const std::string_view origin_;
  const std::string_view runtime_version_;
  OperatorSource& source_;
  const RuntimeLimits limits_;
  PreparedModel* const prepared_;
  std::optional<std::string_view> function_;  // the one that is being read, none in the graph
  /// By "domain::Name": the Python modules that declare operators, as the model's metadata says.
  std::map<std::string, std::string_view, std::less<>> modules_;
  std::map<std::string_view, std::int64_t> lowered_;  // the highest version of each such domain
  std::map<std::string_view, std::set<std::string>> differences_;  // operators, by their domain
};

Status Preparer::Run(std::string_view model) {
  ReadModules(model);
  Rope out;
  bool changed = false;
  bool has_graph = false;
  bool has_opset = false;
  bool imports_opgraft = false;
  NoteOpsets(model);
  for (FieldReader reader(model); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kIrVersion:
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
        Rope graph;
        bool graph_changed = false;
        Status status = RewriteGraph(field.Bytes(), 0, &graph, &graph_changed);
        if (!status.ok()) return status;
        out.AddMessage(tag::kGraph, std::move(graph));
        changed |= graph_changed;
        break;
      }
      case tag::kFunctions: {
        Rope function;
        Status status = RewriteFunction(field.Bytes(), &function, &changed);
        if (!status.ok()) return status;
        out.AddMessage(tag::kFunctions, std::move(function));
        break;
      }
      case tag::kOpsetImport:
        has_opset = true;
        imports_opgraft |= ReadOpsetImport(field.Bytes()).domain == pyop::kDomain;
        RewriteOpsetImport(field, &out, &changed);
        break;
      default: out.Borrow(field.slice());
    }
  }
  if (!has_graph || !has_opset) {
    return Status::Model(std::string(origin_) + " is no ONNX model, or is cut short: it has no " +
                         (has_graph ? "opset import" : "graph"));
  }
  if (Status status = CheckLoweredOperators(); !status.ok()) return status;
  if (!prepared_->python_operators.empty() && !imports_opgraft) {
    Rope import;
    import.Own(WriteOpsetImport({pyop::kDomain, pyop::kFormat}));
    out.AddMessage(tag::kOpsetImport, std::move(import));
    changed = true;
  }
  if (changed) prepared_->bytes = out.Gather();
  prepared_->needs_file = changed && prepared_->has_external_data && !limits_.takes_folder;
  return Status();
}

void Preparer::ReadModules(std::string_view model) {
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() != tag::kMetadata) continue;
    std::string_view key;
    std::string_view value;
    for (FieldReader entry(reader.field().Bytes()); entry.Next();) {
      if (entry.field().tag() == tag::kEntryKey) key = entry.field().Bytes();
      if (entry.field().tag() == tag::kEntryValue) value = entry.field().Bytes();
    }
    if (!key.starts_with(kModuleKey)) continue;
    modules_[std::string(key.substr(kModuleKey.size()))] = value;
  }
}

Status Preparer::FindDeclared(std::string_view node, const NodeHead& head,
                              std::shared_ptr<const Schema>* schema) {
  const std::string_view domain = IsDefaultDomain(head.domain) ? "" : head.domain;
  std::string_view module;
  if (!modules_.empty()) {
    const auto found = modules_.find(std::string(domain) + "::" + std::string(head.op_type));
    if (found != modules_.end()) module = found->second;
  }
  const std::string who = module.empty() ? "" : DeclaredWho(node, head);
  return source_.Find(who, domain, head.op_type, module, schema);
}

Status Preparer::RewriteGraph(std::string_view graph, int depth, Rope* out, bool* changed) {
  if (depth > kMaximumDepth) {
    return Status::Model(std::string(origin_) + ": its graphs are nested more than " +
                         std::to_string(kMaximumDepth) + " deep");
  }
  DeclaredValues declared;
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraphValueInfo || field.tag() == tag::kGraphInput ||
        field.tag() == tag::kGraphOutput) {
      declared.insert(ReadValueInfo(field.Bytes()));
    }
    if (field.tag() == tag::kGraphInitializer) declared.insert(ReadTensorHead(field.Bytes()));
  }
  Rope value_infos;
  for (FieldReader reader(graph); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kGraphNode) {
      Rope node;
      bool node_changed = false;
      Status status =
          RewriteNode(field.Bytes(), declared, depth, &node, &node_changed, &value_infos);
      if (!status.ok()) return status;
      *changed |= node_changed;
      if (node_changed) {
        out->AddMessage(tag::kGraphNode, std::move(node));
        continue;
      }
    }
    if (field.tag() == tag::kGraphInitializer) {
      NoteExternalData(field.Bytes());
    }
    out->Borrow(field.slice());
  }
  out->Append(std::move(value_infos));
  return Status();
}

Status Preparer::RewriteNode(std::string_view node, const DeclaredValues& declared, int depth,
                             Rope* out, bool* changed, Rope* value_infos) {
  const NodeHead head = ReadHead(node);
  if (head.IsPyOp()) {
    PyOpNode read;
    if (Status status = ReadPyOp(node, &read); !status.ok()) return status;
    if (function_) return RefusalInFunction(read.spec);
    if (head.IsCanonical()) {
      prepared_->python_operators.push_back(std::move(read.spec));
      return Status();
    }
    if (Status status = Complete(declared, &read); !status.ok()) return status;
    if (Status status = CheckCarried(read.spec); !status.ok()) return status;
    WriteNode(std::move(read), declared, out, value_infos);
    *changed = true;
    return Status();
  }
  std::shared_ptr<const Schema> schema;
  if (Status status = FindDeclared(node, head, &schema); !status.ok()) return status;
  if (schema != nullptr) {
    PyOpNode read;
    Status status = ReadDeclared(node, *schema, declared, &read);
    if (status.ok()) status = CheckCarried(read.spec);
    if (!status.ok()) return status;
    if (function_) return RefusalInFunction(read.spec);
    WriteNode(std::move(read), declared, out, value_infos);
    *changed = true;
    return Status();
  }
  NoteDifference(node, head);
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() != tag::kNodeAttribute) {
      out->Borrow(field.slice());
      continue;
    }
    Rope attribute;
    Status status = RewriteAttribute(field.Bytes(), depth, &attribute, changed);
    if (!status.ok()) return status;
    out->AddMessage(tag::kNodeAttribute, std::move(attribute));
  }
  return Status();
}

Status Preparer::RefusalInFunction(const pyop::Spec& spec) const {
  return Status::Model(spec.Who() + ": it stands in the model's function '" +
                       std::string(*function_) +
                       "', where a PyOp cannot run yet. Inline it first: "
                       "onnx.inliner.inline_local_functions(model)");
}

void Preparer::WriteNode(PyOpNode node, const DeclaredValues& declared, Rope* out,
                         Rope* value_infos) {
  const pyop::Spec& spec = node.spec;
  for (std::size_t i = 0; i < spec.output_types.size(); ++i) {
    const std::string_view output = node.outputs[spec.OutputPlace(i)];
    const auto value = declared.find(output);
    const bool has_type = value != declared.end() && value->second.element_type != 0;
    if (output.empty() || has_type || spec.output_types[i] == 0) continue;
    Rope value_info;
    value_info.Own(WriteValueInfo(output, spec.output_types[i]));
    value_infos->AddMessage(tag::kGraphValueInfo, std::move(value_info));
  }
  prepared_->python_operators.push_back(spec);
  *out = WriteCanonical(std::move(node));
}

Status Preparer::RewriteAttribute(std::string_view attribute, int depth, Rope* out, bool* changed) {
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
    Status status = RewriteGraph(field.Bytes(), depth + 1, &graph, changed);
    if (!status.ok()) return status;
    out->AddMessage(field.tag(), std::move(graph));
  }
  return Status();
}

void Preparer::NoteExternalData(std::string_view tensor) {
  for (FieldReader reader(tensor); reader.Next();) {
    prepared_->has_external_data |= reader.field().tag() == tag::kTensorDataLocation &&
                                    reader.field().Integer() == tag::kExternal;
  }
}

Status Preparer::RewriteFunction(std::string_view function, Rope* out, bool* changed) {
  function_ = "";
  for (FieldReader reader(function); reader.Next();) {
    if (reader.field().tag() == tag::kFunctionName) function_ = reader.field().Bytes();
  }
  for (FieldReader reader(function); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kFunctionOpsetImport) {
      RewriteOpsetImport(field, out, changed);
      continue;
    }
    if (field.tag() == tag::kFunctionNode) {
      Rope node;
      Rope value_infos;
      Status status = RewriteNode(field.Bytes(), {}, 0, &node, changed, &value_infos);
      if (!status.ok()) return status;
    }
    out->Borrow(field.slice());
  }
  function_.reset();
  return Status();
}

/// Nodes may come before the imports that say what they are.
void Preparer::NoteOpsets(std::string_view model) {
  const auto note = [this](const Field& field) {
    const OpsetImport import = ReadOpsetImport(field.Bytes());
    if (import.version <= OpsetLimit(limits_, import.domain).value_or(import.version)) return;
    std::int64_t& highest = lowered_[IsDefaultDomain(import.domain) ? "" : import.domain];
    highest = std::max(highest, import.version);
  };
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() == tag::kOpsetImport) note(reader.field());
    if (reader.field().tag() != tag::kFunctions) continue;
    for (FieldReader function(reader.field().Bytes()); function.Next();) {
      if (function.field().tag() == tag::kFunctionOpsetImport) note(function.field());
    }
  }
}

void Preparer::NoteDifference(std::string_view node, const NodeHead& head) {
  const std::string_view domain = IsDefaultDomain(head.domain) ? "" : head.domain;
  const auto lowered = lowered_.find(domain);
  if (lowered == lowered_.end() || domain == kContribDomain) return;
  std::string difference = domain.empty()
                               ? Difference(node, head.op_type, limits_.opset, lowered->second)
                               : std::string(head.op_type);
  if (!difference.empty()) differences_[domain].insert(std::move(difference));
}

void Preparer::RewriteOpsetImport(const Field& field, Rope* out, bool* changed) {
  OpsetImport import = ReadOpsetImport(field.Bytes());
  const std::int64_t limit = OpsetLimit(limits_, import.domain).value_or(import.version);
  if (import.version <= limit) return out->Borrow(field.slice());
  import.version = limit;
  Rope lowered;
  lowered.Own(WriteOpsetImport(import));
  out->AddMessage(field.tag(), std::move(lowered));
  *changed = true;
}

Status Preparer::CheckLoweredOperators() const {
  if (differences_.empty()) return Status();
  const auto& [domain, operators] = *differences_.begin();
  if (domain.empty()) prepared_->opset_limit = limits_.opset;
  std::string names;
  for (const std::string& name : operators) names += (names.empty() ? "" : ", ") + name;
  const std::string opset = std::to_string(OpsetLimit(limits_, domain).value_or(0));
  return Status::Model(std::string(origin_) + " is of " +
                       (domain.empty() ? "ONNX" : std::string(domain)) + " opset " +
                       std::to_string(lowered_.at(domain)) + ", ONNX Runtime " +
                       std::string(runtime_version_) + " takes at most " + opset +
                       ", and between the two these operators have changed: " + names +
                       ". Export the model for opset " + opset);
}

Status Preparer::CheckCarried(const pyop::Spec& spec) const {
  for (const auto* const types : {&spec.input_types, &spec.output_types}) {
    for (const std::int64_t type : *types) {
      if (type <= limits_.last_type) continue;
      return Status::Model(spec.Who() + ": it has tensors of " + ElementTypeName(type) +
                           ", which custom operators of ONNX Runtime " +
                           std::string(runtime_version_) +
                           " cannot have; int4 and uint4 need 1.21, float4_e2m1fn needs 1.24");
    }
  }
  return Status();
}

}  // namespace

Status Prepare(std::string_view model, std::string_view origin, std::string_view runtime_version,
               OperatorSource& operators, PreparedModel* prepared) {
  *prepared = PreparedModel();
  if (RuntimeVersion::Parse(runtime_version) < kOldestRuntime) {
    return Status::Error("runtime: expected a version of ONNX Runtime from 1.19 on, not '" +
                         std::string(runtime_version) + "'");
  }
  // The runtime's own format, which holds no node that would have to be changed.
  if (model.size() > 8 && model.substr(4, 4) == "ORTM") return Status();
  try {
    return Preparer(origin, runtime_version, operators, prepared).Run(model);
  } catch (const protozero::exception& exception) {
    return Status::Model(std::string(origin) +
                         " is no ONNX model, or is cut short: " + exception.what());
  }
}

}  // namespace opgraft::model
