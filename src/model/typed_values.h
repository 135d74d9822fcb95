// The values of a graph while its nodes are put into wider types: the type of each, and the Casts
// between a value and its copies in wider types.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/rope.h"
#include "model/type_inference.h"

namespace opgraft::model {

/// Makes names for new values, each used once in the model.
class ValueNames {
 public:
  /// Names in `graph`, which must outlive this object, and in nested graphs are taken.
  explicit ValueNames(std::string_view graph);

  /// Returns `name` with `suffix`, and a number if that is taken. Valid as long as this object.
  std::string_view New(std::string_view name, const std::string& suffix);

 private:
  std::unordered_set<std::string_view> taken_;
  std::map<std::string, std::size_t> numbers_;  // the last one that was appended to a name
  std::deque<std::string> made_;
};

/// The number of Casts that each rescued node needs: before it, and after it.
using CastCounts = std::vector<std::size_t>;

/// A value that the model names, and where its elements are.
struct TypedValue {
  ValueType type = 0;
  /// The value exists under the model's own name, in its own type.
  bool is_narrow = true;
  /// What a node computed in a wider type, before it is rounded to `type`; or empty.
  std::string_view raw = {};
  ValueType raw_type = 0;
  /// The rescued node that has computed it, as a place in the counts.
  std::size_t island = 0;
  /// Copies in wider types with exactly the elements that the value has in its own type.
  std::map<ValueType, std::string_view> exact = {};
};

/// The values that one graph defines, within those of the enclosing graphs.
class TypedValues {
 public:
  /// All must outlive this object. `outer` belongs to the enclosing graph; nullptr if there is
  /// none.
  TypedValues(TypedValues* outer, ValueNames* names, CastCounts* counts)
      : outer_(outer), names_(names), counts_(counts) {}

  /// Defines a value in this graph. What a name means is decided by its first definition.
  void Define(std::string_view name, TypedValue value) {
    values_.try_emplace(name, std::move(value));
  }

  /// Returns 0 for a value that is not defined here or outside.
  ValueType TypeOf(std::string_view name) const;

  /// Returns the wider type that a node has computed the value in; 0 if none has.
  ValueType RawType(std::string_view name) const;

  /// Each returns the name under which a node of this graph reads the value, and adds the Casts
  /// that this needs before the node that is being written, in the graph that defines the value.
  /// `Own` is the value in its own type, `Exact` has the same elements in a wider type, `Raw` is
  /// what was computed in the wider type, if it was. `Any` is any of them. A Cast into a wider type
  /// counts for the rescued node `island` that reads it.
  std::string_view Own(std::string_view name);
  std::string_view Exact(std::string_view name, ValueType type, std::size_t island);
  std::string_view Raw(std::string_view name, ValueType type, std::size_t island);
  std::string_view Any(std::string_view name);

  /// The Casts that were added since the last call. The caller writes them before its next node.
  Rope TakeCasts() { return std::exchange(casts_, Rope()); }

 private:
  /// Returns the graph that defines the value, or nullptr.
  TypedValues* OwnerOf(std::string_view name);
  const TypedValues* OwnerOf(std::string_view name) const {
    return const_cast<TypedValues*>(this)->OwnerOf(name);
  }
  void AddCast(std::string_view from, std::string_view to, ValueType type, std::size_t island);

  TypedValues* const outer_;
  ValueNames* const names_;
  CastCounts* const counts_;
  std::map<std::string_view, TypedValue> values_;
  Rope casts_;
};

}  // namespace opgraft::model
