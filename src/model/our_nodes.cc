// Declared operators by their schemas, PyOps by what they say themselves.
#include "model/our_nodes.h"

#include "core/element_type.h"
#include "model/declared_node.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

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

const OurNodes::Lookup& OurNodes::Find(const NodeHead& head) {
  const std::string_view domain = Normalized(head.domain);
  const auto [found, is_new] = lookups_.try_emplace({domain, head.op_type});
  if (!is_new) return found->second;
  const std::string name = std::string(domain) + "::" + std::string(head.op_type);
  const auto module = modules_.find(name);
  const std::string who = (head.name.empty() ? "a node" : "node '" + std::string(head.name) + "'") +
                          ", operator " + name;
  found->second.status = source_.Find(who, name, module != modules_.end() ? module->second : "",
                                      &found->second.schema);
  return found->second;
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
                           " cannot have; int4 and uint4 need 1.21, float4_e2m1fn needs 1.24");
    }
  }
  return Status();
}

}  // namespace opgraft::model
