// Names for nodes that have none: ONNX Runtime refuses two nodes of one name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

/// Calls `visit` with a graph, and with all that are inside it. Not by recursion, since how deep
/// graphs are nested is only checked where they are written.
template <class Visit>
void VisitGraphs(std::string_view graph, const Visit& visit) {
  std::vector<std::string_view> graphs = {graph};
  while (!graphs.empty()) {
    const std::string_view next = graphs.back();
    graphs.pop_back();
    visit(next);
    for (FieldReader reader(next); reader.Next();) {
      if (reader.field().tag() != tag::kGraphNode) continue;
      for (FieldReader node(reader.field().Bytes()); node.Next();) {
        if (node.field().tag() != tag::kNodeAttribute) continue;
        for (FieldReader attribute(node.field().Bytes()); attribute.Next();) {
          const Field& field = attribute.field();
          const bool is_graph =
              field.tag() == tag::kAttributeGraph || field.tag() == tag::kAttributeGraphs;
          if (is_graph) graphs.push_back(field.Bytes());
        }
      }
    }
  }
}

class NodeNames {
 public:
  /// The names of `graph`, which must outlive this, and of the graphs inside it are not given. It
  /// is only read where a name is asked for.
  explicit NodeNames(std::string_view graph = {}) : graph_(graph) {}

  /// `wish`, with a number behind it where a node has that name already.
  std::string Give(const std::string& wish);

 private:
  void Read();

  std::string_view graph_;
  bool is_read_ = false;
  std::unordered_set<std::string_view> found_;
  std::map<std::string, std::size_t> given_;  // and how many of those with a number behind it
};

}  // namespace opgraft::model
