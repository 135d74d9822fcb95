// What a canonical PyOp node says about its Python operator: the contents of docs/format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::pyop {

inline constexpr char kDomain[] = "ai.opgraft";
inline constexpr char kOpType[] = "PyOp";
/// As PyOp, for an operator that runs on a GPU.
inline constexpr char kGpuOpType[] = "PyOpCuda";
/// Behind one of these: all outputs have the type of the first input; with a number behind it, so
/// many of the first outputs have. So the runtime finds the types by itself where the model says
/// nothing.
inline constexpr char kLikeEnding[] = "Like";
inline constexpr std::size_t kMostLeading = 2;
inline constexpr std::int64_t kFormat = 1;          ///< of a node that runs a class
inline constexpr std::int64_t kDeclaredFormat = 2;  ///< of a node that runs a declared operator
inline constexpr std::int64_t kGpuFormat = 3;       ///< of one that runs it on a GPU

/// The attributes of a canonical node.
namespace attribute {
inline constexpr char kFormat[] = "format";
inline constexpr char kModule[] = "module";
inline constexpr char kClassName[] = "class_name";
inline constexpr char kCompute[] = "compute";
inline constexpr char kInputTypes[] = "input_types";
inline constexpr char kOutputTypes[] = "output_types";
inline constexpr char kInputPlaces[] = "input_places";
inline constexpr char kOutputShapes[] = "output_shapes";
inline constexpr char kArguments[] = "arguments";
inline constexpr char kOperator[] = "operator";
inline constexpr char kOutputPlaces[] = "output_places";
}  // namespace attribute

/// A dimension, or an input, that is not there or not known.
inline constexpr std::int64_t kUnknown = -1;

/// The dimensions that the model declares for an output; nullopt where it leaves the rank open.
using DeclaredShape = std::optional<std::vector<std::int64_t>>;

struct Spec {
  std::string node;  ///< the node's name; empty for a declared operator that is called without one
  std::string module;
  std::string operator_name;  ///< "domain::Name" of a declared operator; empty for a class
  std::string class_name;
  std::string compute = "compute";
  std::vector<std::int64_t> input_types;  ///< one for each place; empty: any types
  /// One for each output; 0 in the node of a declared operator: that of the node's first input.
  std::vector<std::int64_t> output_types;
  /// For each argument of the method, which of the node's inputs it is, or kUnknown for None;
  /// empty: all inputs, in order.
  std::vector<std::int64_t> input_places;
  /// For each output of the operator, which of the node's it is; empty: all, in order.
  std::vector<std::int64_t> output_places;
  std::vector<DeclaredShape> output_shapes;  ///< one for each output, or empty
  std::string arguments;  ///< a NodeProto in bytes, whose attributes are for __init__
  bool on_gpu = false;    ///< the operator is declared to run on a GPU

  bool IsDeclared() const { return !operator_name.empty(); }
  /// What messages call that which is run: the method's name, or "the operator".
  std::string Callee() const { return IsDeclared() ? "the operator" : compute; }

  /// "node 'n', operator module.Class" or "domain::Name", with which every message begins.
  std::string Who() const;
  /// The number of arguments of the method for a node with `inputs` inputs.
  std::size_t Places(std::size_t inputs) const;
  /// Which of the node's inputs is argument `index` of the operator, or kUnknown for None.
  std::int64_t InputPlace(std::size_t index) const {
    return input_places.empty() ? static_cast<std::int64_t>(index) : input_places[index];
  }
  /// Which of the node's outputs is output `index` of the operator.
  std::size_t OutputPlace(std::size_t index) const {
    return output_places.empty() ? index : static_cast<std::size_t>(output_places[index]);
  }
};

/// Whether a node with so many inputs and outputs can be run by `spec`; a ModelError if not.
Status Check(const Spec& spec, std::size_t inputs, std::size_t outputs);

/// Output shapes as the one list of integers in which a node holds them: for each output its rank
/// and its dimensions, kUnknown for what is open. Unpack gives false for a list that is not so.
std::vector<std::int64_t> Pack(const std::vector<DeclaredShape>& shapes);
bool Unpack(const std::vector<std::int64_t>& packed, std::vector<DeclaredShape>* shapes);

}  // namespace opgraft::pyop
