// The contents of a canonical PyOp node, which docs/format.md describes.
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
/// Like PyOp, for an operator that runs on a GPU.
inline constexpr char kGpuOpType[] = "PyOpCuda";
/// A suffix of the above: all outputs have the type of the first input. If a number follows, only
/// that many of the first outputs do. It lets the runtime infer the types if the model does not
/// declare them.
inline constexpr char kLikeEnding[] = "Like";
inline constexpr std::size_t kMostLeading = 2;
inline constexpr std::int64_t kFormat = 1;          ///< a node that runs a class
inline constexpr std::int64_t kDeclaredFormat = 2;  ///< a node that runs a declared operator
inline constexpr std::int64_t kGpuFormat = 3;  ///< a node that runs a declared operator on a GPU

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

/// A dimension that is not known, or an input that is absent.
inline constexpr std::int64_t kUnknown = -1;

/// The dimensions that the model declares for an output; nullopt if the rank is not known.
using DeclaredShape = std::optional<std::vector<std::int64_t>>;

struct Spec {
  std::string node;  ///< the node's name; empty if a declared operator runs without a node
  std::string module;
  std::string operator_name;  ///< "domain::Name" of a declared operator; empty for a class
  std::string class_name;
  std::string compute = "compute";
  std::vector<std::int64_t> input_types;  ///< one for each argument; empty: any types
  /// One for each output; in the node of a declared operator, 0 is the type of the first input.
  std::vector<std::int64_t> output_types;
  /// For each argument of the method, the index of the node's input, or kUnknown for None; empty:
  /// all inputs in order.
  std::vector<std::int64_t> input_places;
  /// For each output of the operator, the index of the node's output; empty: all in order.
  std::vector<std::int64_t> output_places;
  std::vector<DeclaredShape> output_shapes;  ///< one for each output, or empty
  std::string arguments;  ///< the bytes of a NodeProto with the attributes for __init__
  bool on_gpu = false;    ///< the operator is declared to run on a GPU

  bool IsDeclared() const { return !operator_name.empty(); }
  /// What messages call the code that runs: the method's name, or "the operator".
  std::string Callee() const { return IsDeclared() ? "the operator" : compute; }

  /// Returns "node 'n', operator module.Class" or "domain::Name", which begins every message.
  std::string Who() const;
  /// Returns the number of arguments of the method for a node with `inputs` inputs.
  std::size_t Places(std::size_t inputs) const;
  /// Returns the index of the node's input that is argument `index`, or kUnknown for None.
  std::int64_t InputPlace(std::size_t index) const {
    return input_places.empty() ? static_cast<std::int64_t>(index) : input_places[index];
  }
  /// Returns the index of the node's output that is output `index` of the operator.
  std::size_t OutputPlace(std::size_t index) const {
    return output_places.empty() ? index : static_cast<std::size_t>(output_places[index]);
  }
};

/// Checks that `spec` can run a node with these numbers of inputs and outputs; a ModelError if not.
Status Check(const Spec& spec, std::size_t inputs, std::size_t outputs);

/// Convert output shapes to and from the list of integers in a node: for each output its rank and
/// its dimensions, kUnknown if they are not known. Unpack returns false if the list is malformed.
std::vector<std::int64_t> Pack(const std::vector<DeclaredShape>& shapes);
bool Unpack(const std::vector<std::int64_t>& packed, std::vector<DeclaredShape>* shapes);

}  // namespace opgraft::pyop
