// Numbers names from 2 on.
#include "model/node_names.h"

#include "model/fields.h"
#include "model/graphs.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

std::string NodeNames::Give(const std::string& wish) {
  if (!is_read_) Read();
  const auto is_free = [&](const std::string& name) {
    return found_.count(name) == 0 && given_.count(name) == 0;
  };
  std::string name = wish;
  if (!is_free(name)) {
    std::size_t& number = given_.try_emplace(wish, 1).first->second;
    do {
      name = wish + "_" + std::to_string(++number);
    } while (!is_free(name));
  }
  given_.try_emplace(name, 1);
  return name;
}

void NodeNames::Read() {
  is_read_ = true;
  VisitGraphs(graph_, [&](std::string_view graph) {
    for (FieldReader reader(graph); reader.Next();) {
      if (reader.field().tag() != tag::kGraphNode) continue;
      for (FieldReader node(reader.field().Bytes()); node.Next();) {
        if (node.field().tag() == tag::kNodeName) found_.insert(node.field().Bytes());
      }
    }
  });
}

}  // namespace opgraft::model
