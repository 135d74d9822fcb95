// Reads and writes OperatorSetIdProto.
#include "model/opset_import.h"

#include <protozero/pbf_writer.hpp>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

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

}  // namespace opgraft::model
