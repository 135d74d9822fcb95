// Reads only what the graph needs; the kernel reads and checks the rest.
#include "model/aten_node.h"

#include <utility>

#include "base/text.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

bool IsLegacyAten(std::string_view node, const NodeHead& head) {
  if (head.op_type != kAtenOpType) return true;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    if (ReadAttributeHead(reader.field().Bytes()).name == "encoding") return false;
  }
  return true;
}

Status ReadAten(std::string_view node, const NodeHead& head, AtenNode* read) {
  constexpr std::pair<std::string_view, tag::AttributeType> kKinds[] = {
      {"operator", tag::kString},  {"overload_name", tag::kString}, {"encoding", tag::kInt},
      {"arguments", tag::kString}, {"results", tag::kString},
  };
  std::string_view name;
  std::string_view overload;
  std::string_view said;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kNodeOutput) read->outputs.push_back(field.Bytes());
    if (field.tag() != tag::kNodeAttribute) continue;
    const std::string_view attribute = ReadAttributeHead(field.Bytes()).name;
    for (const auto& [known, kind] : kKinds) {
      if (known != attribute) continue;
      Status status =
          CheckKind(field.Bytes(), kind, "node '" + ReadableName(NodeName(node, head)) + "'");
      if (!status.ok()) return status;
    }
    const std::string_view text = ReadText(field.Bytes(), tag::kAttributeString);
    if (attribute == "operator") name = text;
    if (attribute == "overload_name") overload = text;
    if (attribute == "results") said = text;
  }
  read->operator_name = (name.find("::") == name.npos ? "aten::" : "") + std::string(name) +
                        (overload.empty() ? "" : "." + std::string(overload));
  const std::string who = "node '" + ReadableName(NodeName(node, head)) + "', operator " +
                          ReadableName(read->operator_name);
  std::vector<aten::WrittenResult> results;
  Status status = aten::ReadResults(said, who, &results);
  if (status.ok()) read->said = aten::OutputsOf(results);
  return status;
}

}  // namespace opgraft::model
