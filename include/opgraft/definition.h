// An operator as it is put together while a pack is loaded: what opgraft/op.h and
// opgraft/contrib.h both fill in, and opgraft/c_api.h tells the host.
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

#pragma GCC visibility push(hidden)  // each pack has its own
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
  std::vector<std::int32_t> allowed;  ///< none: any
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
  /// Of a kernel for a device: 1 for each of the operator's inputs that is in host memory.
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
  std::vector<std::pair<std::string, std::string>> in_place;  ///< an input, an output
  std::vector<ShapeRule> rules;                               ///< one for each output, or none
  ShapeFunction function;                                     ///< a rule for all outputs, or none
  /// A rule that speaks to the host itself, instead of these; or none.
  std::function<void(OpgraftInference*)> inference;
  std::vector<std::unique_ptr<KernelDefinition>> kernels;
  std::vector<std::string> problems;  ///< what is wrong with it, found while it was put together

  std::string FullName() const { return domain + "::" + name; }
  bool HasRule() const { return !rules.empty() || function != nullptr || inference != nullptr; }
  /// Asks the rules.
  void Infer(ShapeContext& context) const;
  /// The place of one of `parameters`, or their number where none is called so.
  static std::size_t IndexOf(const std::vector<ParameterDefinition>& parameters,
                             std::string_view name);
  /// The parameter of value `index`: the last one where there are more values than parameters.
  static const ParameterDefinition& At(const std::vector<ParameterDefinition>& parameters,
                                       std::size_t index) {
    return parameters[index < parameters.size() ? index : parameters.size() - 1];
  }
  /// The element type of an output: the only one, or that of the first input that has it, by the
  /// types of the inputs (0: absent, or not known); 0 where nobody can tell.
  std::int32_t OutputType(std::size_t index, const std::vector<std::int32_t>& input_types) const;
  /// The place of a type; it is added where it is not there yet.
  std::uint32_t TypeIndex(const TypeDefinition& type);
  /// Whether the elements of value `index` are in host memory for a kernel of this operator.
  bool IsOnHost(const KernelDefinition& kernel, std::size_t index) const;
};

/// Puts an operator into the pack that this code is part of. What is wrong with it is said by
/// whoever loads the pack.
void AddToPack(std::unique_ptr<OperatorDefinition> definition);

/// Calls `add` when the pack is first asked for, after all its files have been initialised: for
/// operators whose parts come from several places, in any order.
void AddToPackLater(void (*add)());

/// Says what is wrong with the pack as a whole.
void ReportToPack(const char* problem) noexcept;

/// Asks the rules of an operator for the shapes of a node.
int InferShapes(const OperatorDefinition& definition, OpgraftInference* host);

}  // namespace opgraft::internal
#pragma GCC visibility pop
