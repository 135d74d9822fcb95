// What an operator takes and gives: the one statement from which every host derives the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/output_type.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

/// One dimension of a shape that need not be known: a size, a symbol such as "n" or "2*n", or,
/// where both are left open, nothing.
struct Dimension {
  std::int64_t size = -1;
  std::string symbol;
};

/// nullopt where not even the rank is known.
using SymbolicShape = std::optional<std::vector<Dimension>>;

enum class Occurrence : std::uint8_t {
  kRequired = 0,
  kOptional = 1,
  kVariadic = 2,  ///< any number of them; the last parameter only
};

/// An input or output.
struct Parameter {
  std::string name;
  Occurrence occurrence = Occurrence::kRequired;
  std::size_t type = 0;     ///< which of the schema's types
  std::size_t minimum = 0;  ///< of a variadic one
  std::string description = {};
};

/// The element type of one or more parameters.
struct TypeVariable {
  std::vector<std::int64_t> allowed;  ///< numbers of ONNX's element types; empty: any
  /// All values of it have the same type. If not, each has its own, and an output takes that of the
  /// first input.
  bool is_tied = true;
  std::string name = {};  ///< "T"
  std::string description = {};

  bool Allows(std::int64_t element_type) const;
};

/// A tensor that a schema holds.
struct DefaultTensor {
  std::int32_t element_type = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> elements;  ///< of any type but string
  std::vector<std::string> texts;   ///< of type string

  static DefaultTensor CopyOf(const OpgraftTensor& tensor);
};

/// The default of an attribute, by its kind; monostate where it has none. Floats are as precise as
/// the declaration has them.
using DefaultValue =
    std::variant<std::monostate, double, std::int64_t, std::string, std::vector<double>,
                 std::vector<std::int64_t>, std::vector<std::string>, DefaultTensor>;

struct AttributeParameter {
  std::string name;
  std::int64_t type = 0;  ///< a number of AttributeProto.AttributeType
  bool is_required = false;
  DefaultValue fallback = {};
  bool is_bool = false;  ///< an integer, or some, that the operator takes for true or false
  std::string description = {};
};

/// What computes an operator on one device, for one choice of its types.
struct KernelChoice {
  std::string device;               ///< "cpu" or "cuda"
  std::vector<std::int64_t> types;  ///< what each of the schema's types is; 0: any that is allowed
};

/// What makes an operator one of a pack.
struct NativeOperator {
  const OpgraftOperator* declaration = nullptr;  ///< the pack's, for good
  std::string pack;                              ///< the path of its library
  /// What nodes call it that a runtime is given. Another domain than the operator's own where that
  /// is the runtime's; another name for a version that is not the newest.
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
  std::string module;  ///< the Python module that declares it; empty for one of a pack
  std::string documentation;
  std::string torch_name;  ///< "aten::gelu", or several: what it can stand for in torch; or empty
  std::int64_t since_version = 1;
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<TypeVariable> types;
  std::vector<AttributeParameter> attributes;
  bool has_shape_rule = false;
  bool on_gpu = false;  ///< its Python function takes arrays on a GPU, and no others
  std::shared_ptr<NativeOperator> native;  ///< nullptr for one that is declared in Python

  /// "domain::Name".
  std::string FullName() const { return domain + "::" + name; }
  /// Whether inputs and outputs of these types fit, 0 for what is absent or not known; a ModelError
  /// that begins with `who` if not. The counts have been let through.
  Status CheckTypes(std::string_view who, const std::vector<std::int64_t>& input_types,
                    const std::vector<std::int64_t>& output_types) const;

  /// The type of output `index` where the inputs have these, 0 for what is absent or not known; 0
  /// where it cannot be told.
  std::int64_t OutputType(std::size_t index, const std::vector<std::int64_t>& input_types) const;

  /// "2 inputs", "1 to 3 outputs", "at least 1 input": what a message calls the number expected.
  static std::string CountText(const std::vector<Parameter>& parameters, std::string_view what);
  static bool TakesCount(const std::vector<Parameter>& parameters, std::size_t count);
  /// The parameter of value `index`, which TakesCount has let through.
  static const Parameter& At(const std::vector<Parameter>& parameters, std::size_t index) {
    return parameters[index < parameters.size() ? index : parameters.size() - 1];
  }
};

}  // namespace opgraft
