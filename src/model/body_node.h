// A node for which a body is written: what the body may depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "model/declared_values.h"
#include "model/pyop_node.h"

namespace opgraft::model {

/// Thrown by writers of bodies, for a node that no body fits, and caught by FindBody. The text says
/// what is wrong with the node.
struct NoBodyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class BodyNode {
 public:
  /// `version` is that of the opset in which the node is meant. The arguments must outlive this
  /// object.
  BodyNode(std::string_view node, std::int64_t version, const DeclaredValues& declared);

  std::int64_t version() const { return version_; }
  std::size_t inputs() const { return inputs_.size(); }
  bool HasInput(std::size_t place) const {
    return place < inputs_.size() && !inputs_[place].empty();
  }
  bool HasOutput(std::size_t place) const {
    return place < outputs_.size() && !outputs_[place].empty();
  }
  const std::map<std::string_view, std::string_view>& attributes() const { return attributes_; }
  bool Has(std::string_view attribute) const { return attributes_.contains(attribute); }

  /// Return the value of an attribute, or `preset` if it is absent. Throw if it has another kind.
  std::int64_t Integer(std::string_view attribute, std::int64_t preset) const;
  float Real(std::string_view attribute, float preset) const;
  std::string_view Text(std::string_view attribute, std::string_view preset) const;
  /// Returns the GraphProto of an attribute; throws if it has another kind.
  std::string_view Graph(std::string_view attribute) const;
  /// The same as Integer, and throws if it is less than `least`.
  std::int64_t IntegerFrom(std::int64_t least, std::string_view attribute,
                           std::int64_t preset) const;

  /// Returns 0 if the type of an input is not declared.
  std::int64_t TypeOf(std::size_t place) const;
  pyop::DeclaredShape ShapeOf(std::size_t place) const;
  /// Returns the type; throws if it is not declared.
  std::int64_t NeededType(std::size_t place) const;

 private:
  std::string_view Find(std::string_view attribute, std::int64_t kind) const;

  const std::int64_t version_;
  const DeclaredValues& declared_;
  std::vector<std::string_view> inputs_;
  std::vector<std::string_view> outputs_;
  std::map<std::string_view, std::string_view> attributes_;  // AttributeProtos by name
};

/// Returns a number as the textual syntax has it.
std::string AsText(float number);

}  // namespace opgraft::model
