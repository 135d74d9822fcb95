// Declares operators in C++: one sentence gives the schema, the shape rule and the kernels.
//
//   OPGRAFT_TYPES(T, float, double);
//
//   OPGRAFT_OP("my.domain::Scale")
//       .Doc("Multiplies a tensor by a number.")
//       .Input<T>("x", "any tensor")
//       .Output<T>("y", "x times factor")
//       .Attribute<float>("factor", 2)
//       .Shape(opgraft::SameAs("x"))
//       .Cpu([](auto x, auto y, float factor) {
//         for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor;
//       });
//
// A kernel for GPUs can be added to it with .Cuda(function).
//
// `opgraft build scale.cc` makes libscale.so, which ONNX Runtime 1.19 and newer load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/binding.h"
#include "opgraft/combinations.h"
#include "opgraft/definition.h"
#include "opgraft/device_tensor.h"
#include "opgraft/element.h"
#include "opgraft/kernel.h"
#include "opgraft/kernel_choice.h"
#include "opgraft/shape.h"
#include "opgraft/status.h"
#include "opgraft/tensor.h"
#include "opgraft/torch_call.h"

#pragma GCC visibility push(hidden)
namespace opgraft {
/// The declaration so far, which OPGRAFT_OP begins.
template <class Inputs, class Outputs, class Attributes, class Kernels, bool kHasRule>
class Sentence;

template <class... Ins, class... Outs, class... Attrs, class... Kernels, bool kHasRule>
class [[nodiscard]] Sentence<internal::List<Ins...>, internal::List<Outs...>,
                             internal::List<Attrs...>, internal::List<Kernels...>, kHasRule> {
 public:
  using Definition = std::unique_ptr<internal::OperatorDefinition>;

  explicit Sentence(Definition definition, std::tuple<Kernels...> kernels = {})
      : definition_(std::move(definition)), kernels_(std::move(kernels)) {}

  /// The operator's documentation.
  auto Doc(std::string text) && {
    definition_->documentation = std::move(text);
    return std::move(*this);
  }
  /// The version of the domain in which the operator was added or changed. Each version of an
  /// operator is a sentence of its own.
  auto Since(std::int32_t version) && {
    definition_->since_version = version;
    return std::move(*this);
  }
  /// Declares a torch operator that this one can stand for, such as "aten::gelu". Tensors are
  /// passed in order and attributes by name. Exceptions follow the name: {{"upper", 1}, {"k",
  /// opgraft::Argument("diagonal")}}. A name that is neither an attribute nor an input is an
  /// argument of torch that must have the value. opgraft::LeftToTorch<bool>() lists the element
  /// types for which torch's own translation is the better one. May be repeated for several
  /// operators.
  template <class... Left>
  auto Torch(std::string name, std::vector<internal::TorchArgumentDefinition> arguments = {},
             LeftToTorch<Left...> /*left*/ = {}) && {
    definition_->torch_calls.push_back(
        {std::move(name), std::move(arguments), LeftToTorch<Left...>::Numbers()});
    return std::move(*this);
  }

  /// The next input. `T` is an element type, a name defined by OPGRAFT_TYPES, or opgraft::Any. Wrap
  /// it in opgraft::OnHost if a CUDA kernel reads the elements before it launches.
  template <class T>
  auto Input(std::string name, std::string description = {}) && {
    return std::move(*this).template AddInput<T, OPGRAFT_REQUIRED>(std::move(name),
                                                                   std::move(description));
  }
  /// An input that a node may omit: std::optional in the kernel.
  template <class T>
  auto OptionalInput(std::string name, std::string description = {}) && {
    return std::move(*this).template AddInput<T, OPGRAFT_OPTIONAL>(std::move(name),
                                                                   std::move(description));
  }
  /// The last input, which takes `minimum` tensors or more: opgraft::Tensors in the kernel.
  template <class T>
  auto VariadicInput(std::string name, std::string description = {}, std::uint32_t minimum = 1) && {
    static_assert(!internal::DeclaredInput<T>::kIsOnHost,
                  "a variadic input cannot be opgraft::OnHost: ONNX Runtime keeps only the first "
                  "of its tensors there");
    return std::move(*this).template AddInput<T, OPGRAFT_VARIADIC>(std::move(name),
                                                                   std::move(description), minimum);
  }

  template <class T>
  auto Output(std::string name, std::string description = {}) && {
    return std::move(*this).template AddOutput<T, OPGRAFT_REQUIRED>(std::move(name),
                                                                    std::move(description));
  }
  template <class T>
  auto OptionalOutput(std::string name, std::string description = {}) && {
    return std::move(*this).template AddOutput<T, OPGRAFT_OPTIONAL>(std::move(name),
                                                                    std::move(description));
  }
  template <class T>
  auto VariadicOutput(std::string name, std::string description = {},
                      std::uint32_t minimum = 1) && {
    return std::move(*this).template AddOutput<T, OPGRAFT_VARIADIC>(
        std::move(name), std::move(description), minimum);
  }

  /// An attribute that a node must have.
  template <class A>
  auto Attribute(std::string name) && {
    return std::move(*this).template AddAttribute<A, false>(std::move(name), {}, true);
  }
  template <class A>
  auto RequiredAttribute(std::string name, std::string description) && {
    return std::move(*this).template AddAttribute<A, false>(std::move(name), std::move(description),
                                                            true);
  }
  /// An attribute with a default.
  template <class A>
  auto Attribute(std::string name, A fallback, std::string description = {}) && {
    CheckAttribute<A>();
    return std::move(*this).template AddAttribute<A, false>(std::move(name), std::move(description),
                                                            false, std::move(fallback));
  }
  /// An attribute that may be absent and has no default: std::optional in the kernel.
  template <class A>
  auto OptionalAttribute(std::string name, std::string description = {}) && {
    return std::move(*this).template AddAttribute<A, true>(std::move(name), std::move(description),
                                                           false);
  }

  /// The shapes of the outputs: one rule for each, in order.
  template <class... More>
  auto Shape(ShapeRule first, More... more) && {
    static_assert(!kHasRule, "the operator already has a shape rule");
    (definition_->rules.push_back(std::move(first)));
    (definition_->rules.push_back(std::move(more)), ...);
    return std::move(*this)
        .template With<internal::List<Ins...>, internal::List<Outs...>, internal::List<Attrs...>,
                       true>();
  }
  /// A function that takes an opgraft::ShapeContext& and sets the shapes of the outputs it knows.
  template <class Rule>
    requires std::is_invocable_v<const Rule&, ShapeContext&>
  auto Shape(Rule rule) && {
    static_assert(!kHasRule, "the operator already has a shape rule");
    definition_->function = [rule = std::move(rule)](ShapeContext& context) { rule(context); };
    return std::move(*this)
        .template With<internal::List<Ins...>, internal::List<Outs...>, internal::List<Attrs...>,
                       true>();
  }

  /// The output may reuse the memory of the input if nothing else needs it any more. The kernel
  /// then reads and writes the same elements.
  auto InPlace(std::string input, std::string output) && {
    definition_->in_place.emplace_back(std::move(input), std::move(output));
    return std::move(*this);
  }

  /// A kernel: a function, a lambda or any callable object. It takes the inputs, the outputs and
  /// the attributes in order, optionally preceded by an opgraft::Context&. It returns nothing or an
  /// opgraft::Status. If there are several kernels, the first one that takes a combination of types
  /// runs it.
  template <class F>
  auto Cpu(F kernel) && {
    return std::move(*this).template AddKernel<internal::ForCpu>(
        internal::Callable<F>{std::move(kernel)});
  }
  /// A kernel with state: a class whose constructor may take a const opgraft::KernelInfo&. Its
  /// method Compute (const, because calls may overlap) takes the same arguments as the function
  /// above, and may omit the attributes. If it is a class template, its parameters are the type
  /// variables in the order of their first use.
  template <class Kernel>
  auto Cpu() && {
    return std::move(*this).template AddKernel<internal::ForCpu>(internal::PlainClass<Kernel>());
  }
  template <template <class...> class Kernel>
  auto Cpu() && {
    return std::move(*this).template AddKernel<internal::ForCpu>(internal::TemplateClass<Kernel>());
  }

  /// A kernel for NVIDIA GPUs. It is called on the host, puts its work on the stream of an
  /// opgraft::Context&, and does not wait for it. It takes the same arguments as a CPU kernel, but
  /// tensors as opgraft::DeviceTensor, and outputs that it allocates as opgraft::DeviceOutput. It
  /// need not take all the types of the operator.
  template <class F>
  auto Cuda(F kernel) && {
    return std::move(*this).template AddKernel<internal::ForCuda>(
        internal::Callable<F>{std::move(kernel)});
  }
  template <class Kernel>
  auto Cuda() && {
    return std::move(*this).template AddKernel<internal::ForCuda>(internal::PlainClass<Kernel>());
  }
  template <template <class...> class Kernel>
  auto Cuda() && {
    return std::move(*this).template AddKernel<internal::ForCuda>(
        internal::TemplateClass<Kernel>());
  }

  /// Ends the sentence: binds the kernels and adds the operator to the pack.
  void Finish() && {
    static_assert(sizeof...(Outs) > 0, "an operator needs an output: .Output<T>(\"y\")");
    static_assert(sizeof...(Kernels) > 0, "an operator needs a kernel: .Cpu(...) or .Cuda(...)");
    using Inputs = typename internal::VariablesOf<internal::List<>, internal::List<Ins...>>::Type;
    using All = typename internal::VariablesOf<Inputs, internal::List<Outs...>>::Type;
    static_assert(std::is_same_v<Inputs, All>,
                  "the type of an output must be a single type, or a type variable of an input");
    if constexpr (kRunsOnCpu) {
      ForEachCombination(All(), internal::Combination<>(), [&](auto combination) {
        this->template Bind<internal::ForCpu, All>(combination);
      });
    }
    if constexpr ((std::is_same_v<typename Kernels::Device, internal::ForCuda> || ...)) {
      static_assert(
          Choice<All>::template IsEachFound<internal::ForCuda>(),
          "a CUDA kernel takes none of the types, or its arguments do not fit: expected the "
          "inputs as opgraft::DeviceTensor<const E> (as opgraft::Tensor<const E> if they are "
          "declared opgraft::OnHost; optional inputs in std::optional, variadic inputs as "
          "opgraft::DeviceTensors<const E>), the outputs as opgraft::DeviceTensor<E> or "
          "opgraft::DeviceOutput<E>, then the attributes, each by value and in the order "
          "declared; an opgraft::Context& may come first. Strings cannot be on a GPU: declare an "
          "input of strings as opgraft::OnHost; outputs of strings are not possible");
      ForEachCombination(All(), internal::Combination<>(), [&](auto combination) {
        this->template Bind<internal::ForCuda, All>(combination);
      });
    }
    internal::AddToPack(std::move(definition_));
  }

 private:
  template <class, class, class, class, bool>
  friend class Sentence;

  template <class I, class O, class A, bool kRule>
  auto With() && {
    return Sentence<I, O, A, internal::List<Kernels...>, kRule>(std::move(definition_),
                                                                std::move(kernels_));
  }

  template <class T>
  std::uint32_t TypeIndex() {
    static_assert(
        internal::IsKnownType<T>::value,
        "the type of an input or output must be an element type (float, ..., "
        "opgraft::Float16, std::string), a name defined by OPGRAFT_TYPES, or opgraft::Any");
    if constexpr (internal::kIsVariable<T>) {
      return definition_->TypeIndex({T::Name(), T::Numbers()});
    } else if constexpr (std::is_same_v<T, Any>) {
      // Each is a type of its own, and its values are not tied to one element type.
      const std::string name = "Any" + std::to_string(definition_->types.size());
      return definition_->TypeIndex({name, {}, false});
    } else {
      const std::int32_t number = kElementType<T>;
      return definition_->TypeIndex({"type" + std::to_string(number), {number}});
    }
  }

  template <class Input, int kOccurrence>
  auto AddInput(std::string name, std::string description, std::uint32_t minimum = 1) && {
    static_assert(sizeof...(Kernels) == 0,
                  "declare kernels last, because they take everything that is declared");
    using T = typename internal::DeclaredInput<Input>::Type;
    constexpr bool kIsOnHost = internal::DeclaredInput<Input>::kIsOnHost;
    definition_->inputs.push_back(
        {std::move(name), std::move(description), kOccurrence, TypeIndex<T>(), minimum});
    return std::move(*this)
        .template With<internal::List<Ins..., internal::Value<T, kOccurrence, kIsOnHost>>,
                       internal::List<Outs...>, internal::List<Attrs...>, kHasRule>();
  }
  template <class T, int kOccurrence>
  auto AddOutput(std::string name, std::string description, std::uint32_t minimum = 1) && {
    static_assert(sizeof...(Kernels) == 0,
                  "declare kernels last, because they take everything that is declared");
    static_assert(!std::is_same_v<T, Any>,
                  "an output cannot be opgraft::Any, because its type must be known. Give it the "
                  "type of an input, with OPGRAFT_TYPES");
    static_assert(!internal::DeclaredInput<T>::kIsOnHost,
                  "only inputs can be opgraft::OnHost: an output is where its kernel runs");
    definition_->outputs.push_back(
        {std::move(name), std::move(description), kOccurrence, TypeIndex<T>(), minimum});
    return std::move(*this)
        .template With<internal::List<Ins...>,
                       internal::List<Outs..., internal::Value<T, kOccurrence>>,
                       internal::List<Attrs...>, kHasRule>();
  }
  template <class A>
  static constexpr void CheckAttribute() {
    static_assert(kAttributeKind<A> != 0,
                  "an attribute must be float, std::int64_t, std::string, std::vector of these, or "
                  "opgraft::TensorValue");
  }
  template <class A, bool kIsOptional>
  auto AddAttribute(std::string name, std::string description, bool is_required,
                    AttributeValue fallback = {}) && {
    CheckAttribute<A>();
    static_assert(sizeof...(Kernels) == 0,
                  "declare kernels last, because they take everything that is declared");
    definition_->attributes.push_back({std::move(name), std::move(description), kAttributeKind<A>,
                                       is_required, std::move(fallback)});
    return std::move(*this)
        .template With<internal::List<Ins...>, internal::List<Outs...>,
                       internal::List<Attrs..., internal::AttributeOf<A, kIsOptional>>, kHasRule>();
  }
  template <class Device, class Kernel>
  auto AddKernel(Kernel kernel) && {
    using Given = internal::Given<Device, Kernel>;
    return Sentence<internal::List<Ins...>, internal::List<Outs...>, internal::List<Attrs...>,
                    internal::List<Kernels..., Given>, kHasRule>(
        std::move(definition_),
        std::tuple_cat(std::move(kernels_), std::make_tuple(Given{std::move(kernel)})));
  }

  static constexpr bool kRunsOnCpu =
      (std::is_same_v<typename Kernels::Device, internal::ForCpu> || ...);
  template <class Variables>
  using Choice = internal::KernelChoice<internal::List<Ins...>, internal::List<Outs...>,
                                        internal::List<Attrs...>, Variables, Kernels...>;

  /// Binds the first kernel for the device that takes this combination of types.
  template <class Device, class Variables, class... Binds>
  void Bind(internal::Combination<Binds...>) {
    using C = internal::Combination<Binds...>;
    constexpr std::size_t kIndex = Choice<Variables>::template Find<Device, C>();
    if constexpr (kIndex == sizeof...(Kernels) && std::is_same_v<Device, internal::ForCuda>) {
      static_assert(kRunsOnCpu,
                    "some of the types have no CUDA kernel, and there is no CPU kernel: declare "
                    "fewer types, or add a kernel with .Cpu(...)");
      return;  // the CPU kernels run these types
    } else if constexpr (kIndex == sizeof...(Kernels)) {
      static_assert(
          internal::kNoKernelFor<Binds...>,
          "no kernel takes these types, or the arguments do not fit: expected the "
          "inputs as opgraft::Tensor<const E> (optional inputs in std::optional, variadic "
          "inputs as opgraft::Tensors<const E>), the outputs as opgraft::Tensor<E> or "
          "opgraft::Output<E>, then the attributes, each by value and in the order "
          "declared; an opgraft::Context& may come first. E is an element type, not the "
          "name that OPGRAFT_TYPES defines: write []<class E>(opgraft::Tensor<const E> x, "
          "opgraft::Tensor<E> y), or auto. The method Compute of a class must be const");
    } else {
      using Given = std::tuple_element_t<kIndex, std::tuple<Kernels...>>;
      using Bound = typename Choice<Variables>::template Bound<Given, C>;
      static_assert(kHasRule || !Bound::kStyle.is_ready,
                    "the kernel takes allocated outputs, so that the operator needs a shape "
                    "rule: .Shape(...). Or let the kernel allocate: []<class E>("
                    "opgraft::Tensor<const E> x, opgraft::Output<E> y)");
      std::unique_ptr<internal::KernelDefinition> bound;
      if constexpr (std::is_constructible_v<Bound, internal::OperatorDefinition&>) {
        bound = std::make_unique<Bound>(*definition_);
      } else {
        bound = std::make_unique<Bound>(*definition_, std::get<kIndex>(kernels_).kernel.function);
      }
      bound->device_name = Device::kName;
      if constexpr (std::is_same_v<Device, internal::ForCuda>) {
        bound->host_input_flags = HostInputs(internal::List<Ins...>());
      }
      bound->type_numbers.assign(definition_->types.size(), 0);
      for (std::size_t i = 0; i < definition_->types.size(); ++i) {
        const auto& allowed = definition_->types[i].allowed;
        if (allowed.size() == 1) bound->type_numbers[i] = allowed[0];
      }
      (SetType(bound.get(), Binds()), ...);
      definition_->kernels.push_back(std::move(bound));
    }
  }
  template <class... T, int... kOccurrence, bool... kIsOnHost>
  static std::vector<std::uint8_t> HostInputs(
      internal::List<internal::Value<T, kOccurrence, kIsOnHost>...>) {
    return {static_cast<std::uint8_t>(kIsOnHost ? 1 : 0)...};
  }
  template <class Variable, class Type>
  void SetType(internal::KernelDefinition* kernel, internal::Bind<Variable, Type>) {
    kernel->type_numbers[TypeIndex<Variable>()] = kElementType<Type>;
  }

  Definition definition_;
  std::tuple<Kernels...> kernels_;
};

namespace internal {

/// The object that OPGRAFT_OP defines: constructing it finishes the sentence.
struct Declared {
  template <class Inputs, class Outputs, class Attributes, class Kernels, bool kHasRule>
  // NOLINTNEXTLINE(google-explicit-constructor): OPGRAFT_OP ends in "= Begin(name)"
  Declared(Sentence<Inputs, Outputs, Attributes, Kernels, kHasRule> sentence) {
    try {
      std::move(sentence).Finish();
    } catch (const std::exception& exception) {
      // An exception here would terminate the process that loads the pack.
      ReportToPack(exception.what());
    }
  }
};

inline auto Begin(OperatorName name) {
  auto definition = std::make_unique<OperatorDefinition>();
  const std::size_t colon = name.text.find("::");
  definition->domain = name.text.substr(0, colon);
  definition->name = name.text.substr(colon + 2);
  return Sentence<List<>, List<>, List<>, List<>, false>(std::move(definition));
}

}  // namespace internal
}  // namespace opgraft
#pragma GCC visibility pop

#define OPGRAFT_JOIN_(a, b) a##b
#define OPGRAFT_JOIN(a, b) OPGRAFT_JOIN_(a, b)

/// Begins the declaration of an operator at namespace scope: OPGRAFT_OP("my.domain::Name"). The
/// declaration ends with a semicolon.
#define OPGRAFT_OP(name)                                                    \
  [[maybe_unused]] static const ::opgraft::internal::Declared OPGRAFT_JOIN( \
      opgraft_operator_, __COUNTER__) = ::opgraft::internal::Begin(name)

/// Defines a type variable: OPGRAFT_TYPES(T, float, double). All values declared as T have the same
/// element type in one node. The name is local to the file: another file of the pack may define
/// another T.
#define OPGRAFT_TYPES(variable, ...)                                 \
  namespace {                                                        \
  struct variable : ::opgraft::internal::TypeVariable<__VA_ARGS__> { \
    static const char* Name() { return #variable; }                  \
  };                                                                 \
  }                                                                  \
  static_assert(true, "OPGRAFT_TYPES ends with a semicolon")
