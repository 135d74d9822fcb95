// Declared operators are read by their schemas, PyOps by their attributes.
#include "model/our_nodes.h"

#include "base/element_type.h"
#include "base/text.h"
#include "model/declared_node.h"
#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/opset_import.h"

namespace opgraft::model {

Modules ReadModules(std::string_view model) {
  Modules modules;
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() != tag::kMetadata) continue;
    const std::string_view entry = reader.field().Bytes();
    const std::string_view key = ReadText(entry, tag::kEntryKey);
    if (!key.starts_with(kModuleKey)) continue;
    modules[std::string(key.substr(kModuleKey.size()))] = ReadText(entry, tag::kEntryValue);
  }
  return modules;
}

void OurNodes::Read(std::string_view model) {
  modules_ = ReadModules(model);
  // The imports of the model apply; for domains that it does not import, those of its functions.
  const auto note = [this](std::string_view bytes, bool is_own) {
    const OpsetImport import = ReadOpsetImport(bytes);
    const auto [found, is_new] = versions_.try_emplace(Normalized(import.domain), import.version);
    if (!is_new && is_own) found->second = import.version;
  };
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() != tag::kFunctions) continue;
    for (FieldReader function(reader.field().Bytes()); function.Next();) {
      if (function.field().tag() == tag::kFunctionOpsetImport) {
        note(function.field().Bytes(), false);
      }
    }
  }
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() == tag::kOpsetImport) note(reader.field().Bytes(), true);
  }
}

const OurNodes::Lookup& OurNodes::Find(const NodeHead& head) {
  const std::string_view domain = Normalized(head.domain);
  const auto [found, is_new] = lookups_.try_emplace({domain, head.op_type});
  Lookup& lookup = found->second;
  const bool is_unknown = lookup.schema == nullptr && lookup.status.ok();
  // Any of several nodes may name the module that declares the operator.
  if (!is_new && (!is_unknown || head.module.empty())) return lookup;
  const std::string name = std::string(domain) + "::" + std::string(head.op_type);
  const auto module = modules_.find(name);
  const std::string who =
      (head.name.empty() ? "a node" : "node '" + ReadableName(head.name) + "'") + ", operator " +
      name;
  const auto version = versions_.find(domain);
  OperatorQuery query = {who, name};
  query.module = head.module;
  if (module != modules_.end()) query.module = module->second;
  if (version != versions_.end()) query.version = version->second;
  lookup.status = source_.Find(query, &lookup.schema);
  return lookup;
}

bool OurNodes::IsAnother(const NodeHead& head, std::int64_t version) {
  const Schema* const native = FindNative(head);
  if (native == nullptr) return false;  // Python operators have no versions
  std::shared_ptr<const Schema> other;
  const Status status = source_.Find({"", native->FullName(), version}, &other);
  return !status.ok() || other.get() != native;
}

Status OurNodes::Read(std::string_view node, const NodeHead& head, const DeclaredValues& declared,
                      PyOpNode* read) {
  Status status;
  if (head.IsPyOp()) {
    status = ReadPyOp(node, read);
    if (status.ok()) status = Complete(declared, read);
  } else {
    const Lookup& lookup = Find(head);
    status =
        lookup.status.ok() ? ReadDeclared(node, *lookup.schema, declared, read) : lookup.status;
  }
  return status.ok() ? CheckCarried(read->spec) : status;
}

Status OurNodes::CheckCarried(const pyop::Spec& spec) const {
  for (const auto* const types : {&spec.input_types, &spec.output_types}) {
    for (const std::int64_t type : *types) {
      if (type <= limits_.last_type) continue;
      return Status::Model(spec.Who() + ": it has tensors of " + ElementTypeName(type) +
                           ", which custom operators of ONNX Runtime " +
                           std::string(runtime_version_) +
                           " cannot have. Fix: use a newer ONNX Runtime (int4 and uint4 need 1.21, "
                           "float4_e2m1fn needs 1.24)");
    }
  }
  return Status();
}

}  // namespace opgraft::model
