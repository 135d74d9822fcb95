// The type variables of an operator, and a kernel for each combination of their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "opgraft/binding.h"
#include "opgraft/element.h"
#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// The result of OPGRAFT_TYPES: the types that a parameter may have.
template <class... Types>
struct TypeVariable : VariableBase {
  static_assert(sizeof...(Types) > 0, "OPGRAFT_TYPES: name at least one type");
  static_assert(((kElementType<Types> != 0) && ...),
                "OPGRAFT_TYPES: not an element type of tensors; those are float, double, "
                "std::int8_t to std::uint64_t, bool, std::string, opgraft::Float16, "
                "opgraft::BFloat16");
  using Alternatives = List<Types...>;
  static std::vector<std::int32_t> Numbers() { return {kElementType<Types>...}; }
};

/// "domain::Name", checked by the compiler.
struct OperatorName {
  template <std::size_t kSize>
  consteval OperatorName(const char (&text)[kSize])  // NOLINT(google-explicit-constructor)
      : text(text, kSize - 1) {
    const std::size_t colon = this->text.find("::");
    if (colon == std::string_view::npos || colon == 0 || colon + 2 == this->text.size() ||
        this->text.find(':', colon + 2) != std::string_view::npos) {
      throw "the name of an operator has the form \"domain::Name\"";
    }
  }
  std::string_view text;
};

/// The kernels for `.Cpu` and `.Cuda`: a class, a template over the type variables, or a callable.
template <class Kernel>
struct PlainClass {};
template <template <class...> class Kernel>
struct TemplateClass {};
template <class F>
struct Callable {
  F function;
};
/// A kernel of one of these kinds for a device.
template <class For, class Kernel>
struct Given {
  using Device = For;
  using Kind = Kernel;
  Kernel kernel;
};

template <class T>
struct IsKnownType
    : std::bool_constant<kIsVariable<T> || kElementType<T> != 0 || std::is_same_v<T, Any>> {};

/// The distinct type variables in a list of values.
template <class Found, class Values>
struct VariablesOf {
  using Type = Found;
};
template <class... Found, class T, int kOccurrence, bool kIsOnHost, class... More>
struct VariablesOf<List<Found...>, List<Value<T, kOccurrence, kIsOnHost>, More...>> {
  static constexpr bool kIsNew = kIsVariable<T> && !(std::is_same_v<T, Found> || ...);
  using Next = std::conditional_t<kIsNew, List<Found..., T>, List<Found...>>;
  using Type = typename VariablesOf<Next, List<More...>>::Type;
};

/// Calls `visit` with each combination of types that the variables may stand for.
template <class... Binds, class Visit>
constexpr void ForEachCombination(List<>, Combination<Binds...> combination, const Visit& visit) {
  visit(combination);
}
template <class Variable, class... More, class... Binds, class Visit>
constexpr void ForEachCombination(List<Variable, More...>, Combination<Binds...>,
                                  const Visit& visit) {
  [&]<class... Types>(List<Types...>) {
    (ForEachCombination(List<More...>(), Combination<Binds..., Bind<Variable, Types>>(), visit),
     ...);
  }(typename Variable::Alternatives());
}

/// The kernel type for one combination of types.
template <class Kernel, class Variables, class Combination>
struct KernelFor;
template <class F, class... Variables, class C>
struct KernelFor<Callable<F>, List<Variables...>, C> {
  template <class Binding>
  using Type = FunctionKernel<Binding, F>;
};
template <class Kernel, class... Variables, class C>
struct KernelFor<PlainClass<Kernel>, List<Variables...>, C> {
  template <class Binding>
  using Type = ClassKernel<Binding, Kernel>;
};
template <template <class...> class Kernel, class... Variables, class C>
struct KernelFor<TemplateClass<Kernel>, List<Variables...>, C> {
  template <class Binding>
  using Type = ClassKernel<Binding, Kernel<Resolve<Variables, C>...>>;
};

/// Always false, but depends on template parameters. The compiler prints it with the types for
/// which no kernel fits.
template <class...>
inline constexpr bool kNoKernelFor = false;

/// The type that an input is declared with, without opgraft::OnHost.
template <class T>
struct DeclaredInput {
  using Type = T;
  static constexpr bool kIsOnHost = false;
};
template <class T>
struct DeclaredInput<OnHost<T>> {
  using Type = T;
  static constexpr bool kIsOnHost = true;
};

}  // namespace opgraft::internal
#pragma GCC visibility pop
