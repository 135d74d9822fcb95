// What a graph declares about its values, in value_info or as its inputs and outputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "model/python_spec.h"

namespace opgraft::model {

struct DeclaredValue {
  std::int64_t element_type = 0;  ///< 0 if it is not declared
  pyop::DeclaredShape shape;
};

/// The declarations that a node can see: those of its own graph and of the enclosing graphs.
class DeclaredValues {
 public:
  /// `outer` belongs to the enclosing graph, if any, and must outlive this object.
  explicit DeclaredValues(const DeclaredValues* outer = nullptr) : outer_(outer) {}

  /// Returns false if the value is already declared in this graph.
  bool Add(std::pair<std::string_view, DeclaredValue> value) {
    return values_.insert(std::move(value)).second;
  }

  /// Adds what `graph` declares in its value_info, inputs, outputs and initializers.
  void Read(std::string_view graph);

  /// Returns nullptr if the value is not declared.
  const DeclaredValue* Find(std::string_view name) const {
    for (const DeclaredValues* graph = this; graph != nullptr; graph = graph->outer_) {
      const auto found = graph->values_.find(name);
      if (found != graph->values_.end()) return &found->second;
    }
    return nullptr;
  }

  /// Returns 0 if the type is not declared.
  std::int64_t TypeOf(std::string_view name) const {
    const DeclaredValue* const value = Find(name);
    return value != nullptr ? value->element_type : 0;
  }

  pyop::DeclaredShape ShapeOf(std::string_view name) const {
    const DeclaredValue* const value = Find(name);
    return value != nullptr ? value->shape : std::nullopt;
  }

 private:
  const DeclaredValues* const outer_;
  std::map<std::string_view, DeclaredValue> values_;
};

/// Returns the name and the contents of a ValueInfoProto.
std::pair<std::string_view, DeclaredValue> ReadValueInfo(std::string_view value_info);

/// Returns the name and the element type of a TensorProto.
std::pair<std::string_view, DeclaredValue> ReadTensorHead(std::string_view tensor);

/// Writes a ValueInfoProto. Without a shape it declares only the type, because a declared rank
/// is taken as certain. Unknown sizes have no symbols.
std::string WriteValueInfo(std::string_view name, const DeclaredValue& value);

}  // namespace opgraft::model
