// Joins schemas and kernels, which come from different macros and files, into operators of the
// pack.
#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/element_type.h"
#include "contrib/node.h"
#include "contrib/placement.h"
#include "opgraft/contrib/op_kernel.h"
#include "opgraft/contrib/schema.h"
#include "opgraft/definition.h"
#include "opgraft/kernel.h"

namespace opgraft::internal {
namespace {

using ONNX_NAMESPACE::InferenceFunction;
using ONNX_NAMESPACE::OpSchema;
using onnxruntime::DataTypeImpl;
using onnxruntime::KernelDef;
using onnxruntime::MakeString;
using onnxruntime::OpKernelContext;
using onnxruntime::contrib_internal::CreateFunction;
using onnxruntime::contrib_internal::KernelNode;

/// More kernels than any operator needs; each becomes a custom operator of the runtime.
constexpr std::size_t kMostCombinations = 1024;

/// Calls `body`, and turns the exceptions that the macros of ONNX Runtime's tree throw into errors.
template <class Body>
Status Call(const Body& body) {
  try {
    return body();
  } catch (const onnxruntime::OnnxRuntimeException& exception) {
    return Status::Error(exception.what());
  } catch (const onnxruntime::NotImplementedException& exception) {
    return Status::Error(std::string("NOT_IMPLEMENTED: ") + exception.what());
  }
}

/// One kernel class for one combination of types.
struct ContribKernel final : KernelDefinition {
  ContribKernel(const OperatorDefinition& owner, CreateFunction function, InferenceFunction rule)
      : definition(owner), make(function), inference(std::move(rule)) {
    create = [](const OpgraftKernel* self, OpgraftNode* node, void** state) {
      return Guard(node, [&] {
        return Call([&] {
          *state = new State(static_cast<const ContribKernel&>(*self), node);
          return Status();
        });
      });
    };
    compute = [](void* state, OpgraftCall* call) {
      const State& self = *static_cast<const State*>(state);
      return Guard(call, [&] { return Call([&] { return self.Compute(call); }); });
    };
    destroy = [](void* state) { delete static_cast<State*>(state); };
  }

  struct State {
    State(const ContribKernel& made_from, OpgraftNode* of)
        : definition(made_from),
          node(made_from.definition, made_from, of),
          kernel(made_from.make(onnxruntime::OpKernelInfo(&node))) {
      node.host = nullptr;
      is_checked = made_from.inference == nullptr;
    }

    Status Compute(OpgraftCall* call) const {
      OpKernelContext context(node, call);
      // ONNX Runtime drops the errors of a custom operator's inference while it loads a model: what
      // the schema refuses is refused in the first run instead.
      if (!is_checked.load(std::memory_order_relaxed)) {
        InferredNode inferred(node.state, context);
        definition.inference(inferred);
        is_checked.store(true, std::memory_order_relaxed);
      }
      const onnxruntime::Status status = kernel->Compute(&context);
      if (status.IsOK()) context.Finish();
      return status.ToHost();
    }

    const ContribKernel& definition;
    KernelNode node;
    const std::unique_ptr<onnxruntime::OpKernel> kernel;
    mutable std::atomic<bool> is_checked = false;
  };

  const OperatorDefinition& definition;
  const CreateFunction make;
  const InferenceFunction inference;
};

struct KernelPart {
  std::unique_ptr<KernelDef> definition;
  CreateFunction create;
  bool is_joined = false;
};

/// The schemas and kernels that the macros have registered so far.
struct Parts {
  std::vector<OpSchema> schemas;
  std::vector<KernelPart> kernels;

  void Join();

 private:
  void JoinKernels(const OpSchema& schema, OperatorDefinition* definition);
};

Parts& TheParts() {
  static Parts* const parts = [] {
    AddToPackLater([] { TheParts().Join(); });
    return new Parts;  // kernels may outlive every static object
  }();
  return *parts;
}

std::string Names(const std::vector<std::int32_t>& types) {
  std::string names;
  for (const std::int32_t type : types)
    names += (names.empty() ? "" : ", ") + ElementTypeName(type);
  return names;
}

std::string FullName(const KernelDef& kernel) { return kernel.domain + "::" + kernel.name; }

std::string Versions(const KernelDef& kernel) {
  std::string text = std::to_string(kernel.first_version);
  if (kernel.last_version != std::numeric_limits<int>::max()) {
    text += " to " + std::to_string(kernel.last_version);
  }
  return text;
}

/// As in ONNX Runtime: a kernel is for the schema of the version that it names, or for all schemas
/// with a version in its range.
bool IsFor(const KernelDef& kernel, const OpSchema& schema) {
  if (kernel.domain != schema.domain() || kernel.name != schema.Name()) return false;
  const int version = schema.since_version();
  const bool is_open = kernel.last_version == std::numeric_limits<int>::max();
  if (is_open) return version == kernel.first_version;
  return kernel.first_version <= version && version <= kernel.last_version;
}

/// Returns the type of the operator that a kernel's constraint means: by its own name, or by the
/// name of a parameter of that type. Returns the number of types if there is none.
std::size_t FindType(const OperatorDefinition& definition, const std::string& name) {
  for (std::size_t i = 0; i < definition.types.size(); ++i) {
    if (definition.types[i].name == name) return i;
  }
  for (const auto* const parameters : {&definition.inputs, &definition.outputs}) {
    const std::size_t place = OperatorDefinition::IndexOf(*parameters, name);
    if (place < parameters->size()) return (*parameters)[place].type;
  }
  return definition.types.size();
}

/// Returns the element types that a kernel takes for each of the operator's types; adds what is
/// wrong to `problems`.
std::vector<std::vector<std::int32_t>> FindChoices(const OperatorDefinition& definition,
                                                   const KernelDef& kernel,
                                                   std::vector<std::string>* problems) {
  std::vector<std::vector<std::int32_t>> choices;
  for (const TypeDefinition& type : definition.types) {
    std::vector<std::int32_t>& choice = choices.emplace_back();
    if (!type.is_tied) {
      choice.push_back(0);
      continue;
    }
    for (const std::int32_t number : type.allowed) {
      if (DataTypeImpl::Find(number) != nullptr) choice.push_back(number);
    }
    if (choice.empty() && !type.allowed.empty()) {
      problems->push_back("there is no C++ type for any element type that '" + type.name +
                          "' allows: " + Names(type.allowed));
    }
  }
  for (const auto& [name, types] : kernel.constraints) {
    const std::size_t place = FindType(definition, name);
    if (place == definition.types.size()) {
      problems->push_back("its kernel constrains '" + name +
                          "', which is not a type of the schema");
      continue;
    }
    const TypeDefinition& type = definition.types[place];
    std::vector<std::int32_t> numbers;
    for (const onnxruntime::MLDataType one : types) {
      if (std::count(type.allowed.begin(), type.allowed.end(), one->number()) == 0) {
        problems->push_back("its kernel takes " + ElementTypeName(one->number()) + " as '" + name +
                            "', which the schema does not allow; it allows " + Names(type.allowed));
      } else if (std::count(numbers.begin(), numbers.end(), one->number()) == 0) {
        numbers.push_back(one->number());
      }
    }
    if (type.is_tied) choices[place] = std::move(numbers);
  }
  return choices;
}

/// Returns an output whose type cannot be determined, because there are several and no input has
/// it; nullptr if there is none.
const ParameterDefinition* FindOpenOutput(const OperatorDefinition& definition) {
  for (const ParameterDefinition& output : definition.outputs) {
    const auto has_type = [&](const ParameterDefinition& input) {
      return input.type == output.type;
    };
    if (std::any_of(definition.inputs.begin(), definition.inputs.end(), has_type)) continue;
    std::set<std::int32_t> types;
    for (const auto& kernel : definition.kernels) types.insert(kernel->type_numbers[output.type]);
    if (types.size() > 1) return &output;
  }
  return nullptr;
}

/// Adds one kernel for each combination of types.
void AddKernels(const KernelPart& part, const OpSchema& schema, OperatorDefinition* definition) {
  const std::size_t before = definition->problems.size();
  const auto choices = FindChoices(*definition, *part.definition, &definition->problems);
  const bool is_for_cuda = part.definition->provider == onnxruntime::kCudaExecutionProvider;
  std::vector<std::uint8_t> host_inputs;
  if (is_for_cuda) host_inputs = FindHostInputs(*part.definition, definition);
  if (definition->problems.size() > before) return;
  std::size_t count = 1;
  for (const auto& choice : choices) count = std::min(count * choice.size(), kMostCombinations + 1);
  if (count > kMostCombinations) {
    definition->problems.push_back(
        "its kernel is for more than " + std::to_string(kMostCombinations) +
        " combinations of types. Fix: constrain them by KernelDefBuilder().TypeConstraint(...)");
    return;
  }
  for (std::size_t number = 0; number < count; ++number) {
    auto kernel = std::make_unique<ContribKernel>(*definition, part.create, schema.inference());
    std::size_t rest = number;
    for (const auto& choice : choices) {
      kernel->type_numbers.push_back(choice[rest % choice.size()]);
      rest /= choice.size();
    }
    if (is_for_cuda) {
      kernel->device_name = "cuda";
      kernel->host_input_flags = host_inputs;
    }
    const auto is_same = [&](const auto& other) {
      return other->type_numbers == kernel->type_numbers &&
             other->device_name == kernel->device_name;
    };
    if (std::any_of(definition->kernels.begin(), definition->kernels.end(), is_same)) {
      definition->problems.push_back("it has two kernels for " + Names(kernel->type_numbers));
      return;
    }
    if (is_for_cuda && HasStringsOnGpu(*definition, *kernel)) {
      definition->problems.push_back(
          "it has a kernel for kCudaExecutionProvider with strings, which cannot be on a GPU. "
          "Fix: constrain its types, or keep such an input in host memory: "
          "KernelDefBuilder().InputMemoryType(OrtMemTypeCPUInput, index)");
      return;
    }
    definition->kernels.push_back(std::move(kernel));
  }
}

void Parts::JoinKernels(const OpSchema& schema, OperatorDefinition* definition) {
  std::vector<std::pair<int, int>> in_place;
  bool is_first = true;
  for (KernelPart& part : kernels) {
    const KernelDef& kernel = *part.definition;
    if (!IsFor(kernel, schema)) continue;
    part.is_joined = true;
    if (kernel.provider != onnxruntime::kCpuExecutionProvider &&
        kernel.provider != onnxruntime::kCudaExecutionProvider) {
      definition->problems.push_back("it has a kernel for " + kernel.provider +
                                     "; a pack has kernels for kCpuExecutionProvider and "
                                     "kCudaExecutionProvider. Fix: remove it");
      continue;
    }
    AddKernels(part, schema, definition);
    // The operator has only those pairs that all its kernels have.
    std::erase_if(in_place, [&](const auto& pair) {
      return std::count(kernel.in_place.begin(), kernel.in_place.end(), pair) == 0;
    });
    if (is_first) in_place = kernel.in_place;
    is_first = false;
    for (const auto& [input, output] : kernel.in_place) {
      if (input < 0 || output < 0 || static_cast<std::size_t>(input) >= definition->inputs.size() ||
          static_cast<std::size_t>(output) >= definition->outputs.size()) {
        definition->problems.push_back(MakeString("MayInplace(", input, ", ", output,
                                                  ") names an input or output that the schema "
                                                  "does not have"));
        return;
      }
    }
  }
  for (const auto& [input, output] : in_place) {
    definition->in_place.emplace_back(definition->inputs[static_cast<std::size_t>(input)].name,
                                      definition->outputs[static_cast<std::size_t>(output)].name);
  }
}

void Parts::Join() {
  for (const OpSchema& schema : schemas) {
    std::unique_ptr<OperatorDefinition> definition = schema.Define();
    if (schema.domain().empty() || schema.domain() == "ai.onnx") {
      definition->problems.emplace_back(
          "a pack cannot add to ONNX's own domain. Fix: name another with SetDomain(...)");
      definition->domain = "ai.onnx";
    }
    if (definition->problems.empty()) JoinKernels(schema, definition.get());
    for (KernelPart& part : kernels) part.is_joined |= IsFor(*part.definition, schema);
    if (const ParameterDefinition* const output = FindOpenOutput(*definition)) {
      definition->problems.push_back(
          "output '" + output->name +
          "' has a type that no input has, and there are several: a "
          "pack cannot tell which. Fix: let an input have this type too, "
          "or allow only one");
    }
    if (schema.inference() != nullptr) {
      definition->inference = [self = definition.get(),
                               inference = schema.inference()](OpgraftInference* host) {
        InferredNode node(*self, host);
        inference(node);
        node.Tell(host);
      };
    }
    AddToPack(std::move(definition));
  }
  for (const KernelPart& part : kernels) {
    if (part.is_joined) continue;
    std::string versions;
    for (const OpSchema& schema : schemas) {
      if (schema.domain() != part.definition->domain || schema.Name() != part.definition->name) {
        continue;
      }
      versions += (versions.empty() ? "" : ", ") + std::to_string(schema.since_version());
    }
    const std::string text = FullName(*part.definition) + ": a kernel for version " +
                             Versions(*part.definition) + " has no schema; " +
                             (versions.empty() ? "ONNX_CONTRIB_OPERATOR_SCHEMA(" +
                                                     part.definition->name + ") declares one"
                                               : "there are schemas of version " + versions);
    ReportToPack(text.c_str());
  }
}

/// Exceptions must not escape while a library is loaded: they would end the process.
template <class Body>
void Add(const Body& body) noexcept {
  try {
    body();
  } catch (...) {
    ReportToPack("out of memory while the pack was loaded");
  }
}

}  // namespace

void AddSchema(const OpSchema& schema) noexcept {
  Add([&] { TheParts().schemas.push_back(schema); });
}

void AddKernel(std::unique_ptr<KernelDef> definition, CreateFunction create) noexcept {
  Add([&] { TheParts().kernels.push_back({std::move(definition), create}); });
}

}  // namespace opgraft::internal

ONNX_NAMESPACE::SchemaRegistration::SchemaRegistration(const OpSchema& schema) noexcept {
  opgraft::internal::AddSchema(schema);
}

onnxruntime::contrib_internal::KernelRegistration::KernelRegistration(
    std::unique_ptr<KernelDef> definition, CreateFunction create) noexcept {
  opgraft::internal::AddKernel(std::move(definition), create);
}
