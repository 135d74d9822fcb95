// Changes the operator's name and domain, and lists that the runtime does not pass on.
#include "model/native_node.h"

#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/packed_texts.h"
#include "model/declared_node.h"
#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// Writes a list of texts as one text, in an attribute of another name.
std::string WritePacked(std::string_view attribute, std::string_view name) {
  std::vector<std::string_view> texts;
  for (FieldReader reader(attribute); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeStrings) texts.push_back(reader.field().Bytes());
  }
  std::string written;
  protozero::pbf_writer writer(written);
  writer.add_string(tag::kAttributeName, PackedName(name));
  writer.add_string(tag::kAttributeString, PackTexts(texts));
  writer.add_enum(tag::kAttributeType, tag::kString);
  return written;
}

/// Whether a text of a list contains a zero byte, at which the runtime would cut it off.
bool HasZero(std::string_view attribute) {
  for (FieldReader reader(attribute); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kAttributeStrings && field.Bytes().find('\0') != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace

Status WriteNative(std::string_view node, const NodeHead& head, const Schema& schema,
                   const DeclaredValues& declared, const RuntimeLimits& limits, Rope* out,
                   bool* changed) {
  if (Status status = CheckDeclared(node, schema, declared); !status.ok()) return status;
  const NativeOperator& native = *schema.native;
  const bool is_renamed =
      native.runtime_domain != Normalized(head.domain) || native.runtime_name != head.op_type;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    if (is_renamed && (field.tag() == tag::kNodeOpType || field.tag() == tag::kNodeDomain)) {
      continue;
    }
    if (field.tag() == tag::kNodeAttribute) {
      const AttributeHead attribute = ReadAttributeHead(field.Bytes());
      if (attribute.type == tag::kStrings && (!limits.hands_over_texts || HasZero(field.Bytes()))) {
        Rope packed;
        packed.Own(WritePacked(field.Bytes(), attribute.name));
        out->AddMessage(tag::kNodeAttribute, std::move(packed));
        *changed = true;
        continue;
      }
    }
    out->Borrow(field.slice());
  }
  if (!is_renamed) return Status();
  std::string names;
  protozero::pbf_writer writer(names);
  writer.add_string(tag::kNodeOpType, native.runtime_name);
  writer.add_string(tag::kNodeDomain, native.runtime_domain);
  out->Own(std::move(names));
  *changed = true;
  return Status();
}

}  // namespace opgraft::model
