// Visits the graphs inside a node and inside other graphs.
#pragma once

#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

/// Calls `visit` with each graph in the node's attributes and with the attribute's bytes, but not
/// with graphs nested in those.
template <class Visit>
void VisitGraphsOf(std::string_view node, const Visit& visit) {
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const std::string_view attribute = reader.field().Bytes();
    for (FieldReader value(attribute); value.Next();) {
      const Field& field = value.field();
      const bool is_graph =
          field.tag() == tag::kAttributeGraph || field.tag() == tag::kAttributeGraphs;
      if (is_graph) visit(field.Bytes(), attribute);
    }
  }
}

/// Calls `visit` with a graph and with all graphs nested in it. Not recursive, because the depth of
/// nesting is checked only when graphs are written.
template <class Visit>
void VisitGraphs(std::string_view graph, const Visit& visit) {
  std::vector<std::string_view> graphs = {graph};
  while (!graphs.empty()) {
    const std::string_view next = graphs.back();
    graphs.pop_back();
    visit(next);
    for (FieldReader reader(next); reader.Next();) {
      if (reader.field().tag() != tag::kGraphNode) continue;
      VisitGraphsOf(reader.field().Bytes(),
                    [&](std::string_view inner, std::string_view) { graphs.push_back(inner); });
    }
  }
}

/// Calls `visit` with each node of a model: in its graph, in nested graphs and in functions.
template <class Visit>
void VisitNodes(std::string_view model, const Visit& visit) {
  const auto visit_graph = [&](std::string_view graph) {
    for (FieldReader reader(graph); reader.Next();) {
      if (reader.field().tag() == tag::kGraphNode) visit(reader.field().Bytes());
    }
  };
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() == tag::kGraph) VisitGraphs(reader.field().Bytes(), visit_graph);
    if (reader.field().tag() != tag::kFunctions) continue;
    for (FieldReader function(reader.field().Bytes()); function.Next();) {
      if (function.field().tag() != tag::kFunctionNode) continue;
      visit(function.field().Bytes());
      VisitGraphsOf(function.field().Bytes(), [&](std::string_view graph, std::string_view) {
        VisitGraphs(graph, visit_graph);
      });
    }
  }
}

}  // namespace opgraft::model
