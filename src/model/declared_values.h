// What a graph declares about its values: in value_info, or as its inputs and outputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "pyop/spec.h"

namespace opgraft::model {

struct DeclaredValue {
  std::int64_t element_type = 0;  ///< 0 where it is left open
  pyop::DeclaredShape shape;
};

/// What the graphs declare that a node stands in: its own, and those around it.
class DeclaredValues {
 public:
  /// `outer` is of the graph around this one, and must outlive this; nullptr where there is none.
  explicit DeclaredValues(const DeclaredValues* outer = nullptr) : outer_(outer) {}

  /// False where the value is declared in this graph already.
  bool Add(std::pair<std::string_view, DeclaredValue> value) {
    return values_.insert(std::move(value)).second;
  }

  /// Adds what `graph` declares in its value_info, inputs, outputs and initializers.
  void Read(std::string_view graph);

  /// nullptr where nobody declares it.
  const DeclaredValue* Find(std::string_view name) const {
    for (const DeclaredValues* graph = this; graph != nullptr; graph = graph->outer_) {
      const auto found = graph->values_.find(name);
      if (found != graph->values_.end()) return &found->second;
    }
    return nullptr;
  }

  /// 0 where it is left open.
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

/// The name and the meaning of a ValueInfoProto.
std::pair<std::string_view, DeclaredValue> ReadValueInfo(std::string_view value_info);

/// The name and the type of a TensorProto.
std::pair<std::string_view, DeclaredValue> ReadTensorHead(std::string_view tensor);

/// A ValueInfoProto. Without a shape it gives the type alone, for a rank would be taken for the
/// truth; the sizes that are open have no symbols.
std::string WriteValueInfo(std::string_view name, const DeclaredValue& value);

}  // namespace opgraft::model
