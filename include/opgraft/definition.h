// The definition of an operator, which is built while a pack is loaded. opgraft/op.h and
// opgraft/contrib.h both fill it in, and the host reads it through opgraft/c_api.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/c_api.h"
#include "opgraft/shape.h"
#include "opgraft/torch_call.h"

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft::internal {

struct ParameterDefinition {
  std::string name;
  std::string description;
  std::int32_t occurrence = OPGRAFT_REQUIRED;
  std::uint32_t type = 0;
  std::uint32_t minimum = 1;
};

struct TypeDefinition {
  std::string name;
  std::vector<std::int32_t> allowed;  ///< empty: any
  bool is_tied = true;
  std::string description = {};
};

struct AttributeDefinition {
  std::string name;
  std::string description;
  std::int32_t kind = 0;
  bool is_required = false;
  AttributeValue fallback;
};

struct KernelDefinition : OpgraftKernel {
  KernelDefinition() : OpgraftKernel() {}
  KernelDefinition(const KernelDefinition&) = delete;
  KernelDefinition& operator=(const KernelDefinition&) = delete;
  virtual ~KernelDefinition() = default;

  bool IsForCpu() const { return device_name == "cpu"; }

  std::string device_name = "cpu";
  std::vector<std::int32_t> type_numbers;
  /// For a kernel on a device: 1 for each of the operator's inputs that is in host memory.
  std::vector<std::uint8_t> host_input_flags;
};

struct OperatorDefinition {
  std::string domain;
  std::string name;
  std::string documentation;
  std::vector<TorchCallDefinition> torch_calls;
  std::int32_t since_version = 1;
  std::vector<ParameterDefinition> inputs;
  std::vector<ParameterDefinition> outputs;
  std::vector<TypeDefinition> types;
  std::vector<AttributeDefinition> attributes;
  std::vector<std::pair<std::string, std::string>> in_place;  ///< pairs of an input and an output
  std::vector<ShapeRule> rules;                               ///< one for each output, or empty
  ShapeFunction function;                                     ///< a rule for all outputs, or null
  /// A rule that talks to the host itself and replaces both of the above; or null.
  std::function<void(OpgraftInference*)> inference;
  std::vector<std::unique_ptr<KernelDefinition>> kernels;
  std::vector<std::string> problems;  ///< errors found while it was built

  std::string FullName() const { return domain + "::" + name; }
  bool HasRule() const { return !rules.empty() || function != nullptr || inference != nullptr; }
  /// Applies the rules.
  void Infer(ShapeContext& context) const;
  /// Returns the position of a parameter, or their number if there is none of this name.
  static std::size_t IndexOf(const std::vector<ParameterDefinition>& parameters,
                             std::string_view name);
  /// Returns the parameter of value `index`: the last one if there are more values than parameters.
  static const ParameterDefinition& At(const std::vector<ParameterDefinition>& parameters,
                                       std::size_t index) {
    return parameters[index < parameters.size() ? index : parameters.size() - 1];
  }
  /// Returns the element type of an output: the only one allowed, or the type of the first input
  /// that shares it. `input_types` has 0 for an input that is absent or of unknown type. Returns 0
  /// if the type cannot be determined.
  std::int32_t OutputType(std::size_t index, const std::vector<std::int32_t>& input_types) const;
  /// Returns the position of a type, which is added if it is new.
  std::uint32_t TypeIndex(const TypeDefinition& type);
  /// Whether the elements of value `index` are in host memory for a kernel of this operator.
  bool IsOnHost(const KernelDefinition& kernel, std::size_t index) const;
};

/// Adds an operator to the pack that this code is part of. Errors in it are reported when the pack
/// is loaded.
void AddToPack(std::unique_ptr<OperatorDefinition> definition);

/// Calls `add` when the pack is first used, after all its files have been initialised: for
/// operators whose parts are registered in several places, in any order.
void AddToPackLater(void (*add)());

/// Reports an error of the pack as a whole.
void ReportToPack(const char* problem) noexcept;

/// Applies an operator's rules to infer the shapes of a node's outputs.
int InferShapes(const OperatorDefinition& definition, OpgraftInference* host);

}  // namespace opgraft::internal
#pragma GCC visibility pop
