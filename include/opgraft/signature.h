// Checks that a kernel takes numbers without a conversion, which C++ would do silently.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "opgraft/device_tensor.h"
#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// The parameter types of a pointer to a function or method; void if they cannot be determined.
template <class Pointer>
struct ParametersOf {
  using Type = void;
};
template <class R, class... P>
struct ParametersOf<R (*)(P...)> {
  using Type = std::tuple<P...>;
};
template <class R, class... P>
struct ParametersOf<R (*)(P...) noexcept> {
  using Type = std::tuple<P...>;
};
template <class R, class C, class... P>
struct ParametersOf<R (C::*)(P...) const> {
  using Type = std::tuple<P...>;
};
template <class R, class C, class... P>
struct ParametersOf<R (C::*)(P...) const noexcept> {
  using Type = std::tuple<P...>;
};

/// Whether a parameter can hold every number of an attribute without changing it.
template <class Parameter, class Argument>
constexpr bool KeepsNumber() {
  using P = std::remove_cvref_t<Parameter>;
  using A = std::remove_cvref_t<Argument>;
  if constexpr (std::is_arithmetic_v<P> && std::is_arithmetic_v<A>) {
    return std::is_floating_point_v<P> == std::is_floating_point_v<A> && sizeof(P) >= sizeof(A) &&
           std::is_signed_v<P>;
  } else {
    return true;
  }
}

/// Whether the last elements of the tuple `Parameters` keep the numbers of these arguments.
template <class Parameters, class... Arguments>
constexpr bool KeepNumbers() {
  if constexpr (std::is_void_v<Parameters>) {
    return true;
  } else if constexpr (std::tuple_size_v<Parameters> < sizeof...(Arguments)) {
    return true;
  } else {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      constexpr std::size_t kFirst = std::tuple_size_v<Parameters> - sizeof...(Arguments);
      return (KeepsNumber<std::tuple_element_t<kFirst + I, Parameters>, Arguments>() && ...);
    }(std::index_sequence_for<Arguments...>());
  }
}

/// The element type of a kernel's tensor argument; void for other arguments.
template <class T>
struct ElementOf {
  using Type = void;
};
template <class T>
struct ElementOf<Tensor<T>> {
  using Type = std::remove_const_t<T>;
};
template <class T>
struct ElementOf<DeviceTensor<T>> {
  using Type = std::remove_const_t<T>;
};

/// Whether a callable that takes these values and attributes keeps the attributes' numbers. A
/// template whose parameters cannot be deduced from the values is accepted without a check.
template <class F, class Values, class Attributes>
struct Keeps;
template <class F, class First, class... Values, class... Attributes>
struct Keeps<F, std::tuple<First, Values...>, std::tuple<Attributes...>> {
  using Element = typename ElementOf<std::remove_cvref_t<First>>::Type;

  static constexpr bool Check() {
    if constexpr (!(std::is_arithmetic_v<std::remove_cvref_t<Attributes>> || ...)) {
      return true;
    } else if constexpr (std::is_pointer_v<F>) {
      return KeepNumbers<typename ParametersOf<F>::Type, Attributes...>();
    } else if constexpr (requires { &F::operator(); }) {
      return KeepNumbers<typename ParametersOf<decltype(&F::operator())>::Type, Attributes...>();
    } else if constexpr (requires { &F::template operator()<First, Values..., Attributes...>; }) {
      return true;  // all its parameters are deduced
    } else if constexpr (requires { &F::template operator()<First, Values...>; }) {
      using Pointer = decltype(&F::template operator()<First, Values...>);
      return KeepNumbers<typename ParametersOf<Pointer>::Type, Attributes...>();
    } else if constexpr (std::is_void_v<Element>) {
      return true;
    } else if constexpr (requires { &F::template operator()<Element>; }) {
      using Pointer = decltype(&F::template operator()<Element>);
      return KeepNumbers<typename ParametersOf<Pointer>::Type, Attributes...>();
    } else {
      return true;
    }
  }
};

/// Like Keeps, for the method Compute of a class.
template <class Kernel, class... Attributes>
constexpr bool ComputeKeeps() {
  if constexpr (requires { &Kernel::Compute; }) {
    return KeepNumbers<typename ParametersOf<decltype(&Kernel::Compute)>::Type, Attributes...>();
  } else {
    return true;
  }
}

}  // namespace opgraft::internal
#pragma GCC visibility pop
