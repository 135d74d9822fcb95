// The schema of an operator: the single definition from which every host derives its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/output_type.h"
#include "base/symbolic_shape.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

enum class Occurrence : std::uint8_t {
  kRequired = 0,
  kOptional = 1,
  kVariadic = 2,  ///< any number of values; only the last parameter
};

/// An input or output.
struct Parameter {
  std::string name;
  Occurrence occurrence = Occurrence::kRequired;
  std::size_t type = 0;     ///< index into the schema's types
  std::size_t minimum = 0;  ///< of a variadic parameter
  std::string description = {};
};

/// The element type of one or more parameters.
struct TypeVariable {
  std::vector<std::int64_t> allowed;  ///< ONNX's element types; empty: any
  /// Whether all values have the same type. If not, each value has its own type, and an output has
  /// the type of the first input.
  bool is_tied = true;
  std::string name = {};  ///< "T"
  std::string description = {};

  bool Allows(std::int64_t element_type) const;
};

/// A tensor that is the default of an attribute.
struct DefaultTensor {
  std::int32_t element_type = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> elements;  ///< if the type is not string
  std::vector<std::string> texts;   ///< if the type is string

  static DefaultTensor CopyOf(const OpgraftTensor& tensor);
};

/// The default of an attribute, by its kind; monostate if it has none. Floats have the precision of
/// the declaration.
using DefaultValue =
    std::variant<std::monostate, double, std::int64_t, std::string, std::vector<double>,
                 std::vector<std::int64_t>, std::vector<std::string>, DefaultTensor>;

struct AttributeParameter {
  std::string name;
  std::int64_t type = 0;  ///< ONNX's AttributeProto.AttributeType
  bool is_required = false;
  DefaultValue fallback = {};
  bool is_bool = false;  ///< an integer, or a list, that the operator takes as true or false
  std::string description = {};
};

/// A kernel of an operator: its device and the types that it is for.
struct KernelChoice {
  std::string device;               ///< "cpu" or "cuda"
  std::vector<std::int64_t> types;  ///< for each of the schema's types; 0: any allowed type
};

/// The part of a schema that only operators of packs have.
struct NativeOperator {
  const OpgraftOperator* declaration = nullptr;  ///< belongs to the pack, which stays loaded
  std::string pack;                              ///< the path of its library
  /// The name of the operator in the nodes that a runtime gets. The domain differs from the
  /// operator's own if that belongs to the runtime; the name differs for a version that is not the
  /// newest.
  std::string runtime_domain;
  std::string runtime_name;
  std::string RuntimeFullName() const { return runtime_domain + "::" + runtime_name; }
  /// The newest version of any operator in that domain.
  std::int64_t domain_version = 1;
  std::vector<KernelChoice> kernels;
};

struct Schema {
  std::string domain;
  std::string name;
  std::string module;  ///< the Python module that declares it; empty if a pack does
  std::string documentation;
  std::string torch_name;  ///< the torch operators it can stand for, "aten::gelu"; or empty
  std::int64_t since_version = 1;
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<TypeVariable> types;
  std::vector<AttributeParameter> attributes;
  bool has_shape_rule = false;
  bool on_gpu = false;                     ///< its Python function takes only arrays on a GPU
  bool is_isolated = false;                ///< it runs in a worker process in every session
  std::shared_ptr<NativeOperator> native;  ///< nullptr if it is declared in Python

  /// "domain::Name".
  std::string FullName() const { return domain + "::" + name; }
  /// Checks that inputs and outputs of these types fit; 0 for a value that is absent or of unknown
  /// type. Returns a ModelError that begins with `who` if not. Their numbers must fit (TakesCount).
  Status CheckTypes(std::string_view who, const std::vector<std::int64_t>& input_types,
                    const std::vector<std::int64_t>& output_types) const;

  /// Returns the type of output `index` for inputs of these types, 0 for a value that is absent or
  /// of unknown type. Returns 0 if the type cannot be determined.
  std::int64_t OutputType(std::size_t index, const std::vector<std::int64_t>& input_types) const;

  /// Returns "2 inputs", "1 to 3 outputs" or "at least 1 input": the expected number, for messages.
  static std::string CountText(const std::vector<Parameter>& parameters, std::string_view what);
  static bool TakesCount(const std::vector<Parameter>& parameters, std::size_t count);
  /// Returns the parameter of value `index`, which must be valid according to TakesCount.
  static const Parameter& At(const std::vector<Parameter>& parameters, std::size_t index) {
    return parameters[index < parameters.size() ? index : parameters.size() - 1];
  }
};

}  // namespace opgraft
