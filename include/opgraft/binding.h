// Calls a typed kernel through the C contract: finds the arguments that it takes, and their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "opgraft/arguments.h"
#include "opgraft/c_api.h"
#include "opgraft/definition.h"
#include "opgraft/device_arguments.h"
#include "opgraft/kernel.h"
#include "opgraft/signature.h"
#include "opgraft/status.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

template <class... Members>
struct List {};

/// A declared input or output. `kIsOnHost` is set for an input declared as opgraft::OnHost.
template <class T, int kOccurrence, bool kIsOnHost = false>
struct Value {};

/// A declared attribute. `kIsOptional`: it has no default and may be absent, so that the kernel
/// takes a std::optional.
template <class A, bool kIsOptional>
struct AttributeOf {};

/// The type that a type variable stands for in one of an operator's kernels.
template <class Variable, class Type>
struct Bind {};
template <class... Binds>
struct Combination {};

struct VariableBase {};
template <class T>
inline constexpr bool kIsVariable = std::is_base_of_v<VariableBase, T>;

template <class T, class Combination>
struct ResolveIn {
  using Type = T;
};
template <class T, class First, class X, class... More>
  requires kIsVariable<T>
struct ResolveIn<T, Combination<Bind<First, X>, More...>> {
  using Type = std::conditional_t<std::is_same_v<T, First>, X,
                                  typename ResolveIn<T, Combination<More...>>::Type>;
};
template <class T, class Combination>
using Resolve = typename ResolveIn<T, Combination>::Type;

/// How a kernel is called.
struct Style {
  bool fits = false;
  bool is_ready = true;
  bool takes_context = false;
  bool takes_attributes = true;
};

/// How kernels are called for one device and one combination of types.
template <class Device, class Inputs, class Outputs, class Attributes, class Combination>
struct Binding;

template <class Device, class... In, int... kIn, bool... kHost, class... Out, int... kOut,
          class... A, bool... kA, class C>
struct Binding<Device, List<Value<In, kIn, kHost>...>, List<Value<Out, kOut>...>,
               List<AttributeOf<A, kA>...>, C> {
  /// Whether tensors of these element types can be in the memory where the kernel expects them.
  static constexpr bool kIsPossible = (kCanBeThere<Placed<Resolve<In, C>, Device, kHost>> && ...) &&
                                      (kCanBeThere<Placed<Resolve<Out, C>, Device, false>> && ...);

  template <class F, bool kIsReady, class... More>
  static constexpr bool kTakes = std::is_invocable_v<
      F, typename InputSlot<Placed<Resolve<In, C>, Device, kHost>, kIn>::Argument...,
      typename OutputSlot<Placed<Resolve<Out, C>, Device, false>, kOut, kIsReady>::Argument...,
      More...>;
  template <class F, bool kIsReady, class... More>
  static constexpr bool kTakesContext = std::is_invocable_v<
      F, Context&, typename InputSlot<Placed<Resolve<In, C>, Device, kHost>, kIn>::Argument...,
      typename OutputSlot<Placed<Resolve<Out, C>, Device, false>, kOut, kIsReady>::Argument...,
      More...>;

  /// Returns the first style of call that fits.
  template <class F, bool kMayOmitAttributes>
  static constexpr Style FindStyle() {
    if constexpr (kTakes<F, true, typename AttributeSlot<A, kA>::Argument...>) {
      return {true, true, false, true};
    } else if constexpr (kTakesContext<F, true, typename AttributeSlot<A, kA>::Argument...>) {
      return {true, true, true, true};
    } else if constexpr (kTakes<F, false, typename AttributeSlot<A, kA>::Argument...>) {
      return {true, false, false, true};
    } else if constexpr (kTakesContext<F, false, typename AttributeSlot<A, kA>::Argument...>) {
      return {true, false, true, true};
    } else if constexpr (!kMayOmitAttributes || sizeof...(A) == 0) {
      return {};
    } else if constexpr (kTakes<F, true>) {
      return {true, true, false, false};
    } else if constexpr (kTakesContext<F, true>) {
      return {true, true, true, false};
    } else if constexpr (kTakes<F, false>) {
      return {true, false, false, false};
    } else if constexpr (kTakesContext<F, false>) {
      return {true, false, true, false};
    } else {
      return {};
    }
  }

  /// Whether a kernel that fits takes each number as the type that its attribute has.
  template <class F, bool kIsReady>
  static constexpr bool kFunctionKeepsNumbers =
      Keeps<F,
            std::tuple<typename InputSlot<Placed<Resolve<In, C>, Device, kHost>, kIn>::Argument...,
                       typename OutputSlot<Placed<Resolve<Out, C>, Device, false>, kOut,
                                           kIsReady>::Argument...>,
            std::tuple<typename AttributeSlot<A, kA>::Argument...>>::Check();
  template <class Kernel>
  static constexpr bool kMethodKeepsNumbers =
      ComputeKeeps<Kernel, typename AttributeSlot<A, kA>::Argument...>();

  /// Calls the kernel once.
  template <Style kStyle, class F>
  static Status Call(const F& kernel, const NodeState& state, OpgraftCall* call) {
    const InputTensors tensors(call, state.input_count);
    std::optional<OutputShapes> shapes;
    if constexpr (kStyle.is_ready) {
      shapes.emplace(state, tensors.view(), std::max(state.output_count, sizeof...(Out)));
    }
    return CallWith<kStyle>(kernel, state, call, tensors, shapes ? &*shapes : nullptr,
                            std::index_sequence_for<In...>(), std::index_sequence_for<Out...>(),
                            std::index_sequence_for<A...>());
  }

 private:
  template <Style kStyle, class F, std::size_t... kI, std::size_t... kO, std::size_t... kT>
  static Status CallWith(const F& kernel, const NodeState& state, OpgraftCall* call,
                         const InputTensors& tensors, const OutputShapes* shapes,
                         std::index_sequence<kI...>, std::index_sequence<kO...>,
                         std::index_sequence<kT...>) {
    const std::tuple<InputSlot<Placed<Resolve<In, C>, Device, kHost>, kIn>...> inputs{
        InputSlot<Placed<Resolve<In, C>, Device, kHost>, kIn>(tensors, kI)...};
    std::tuple<OutputSlot<Placed<Resolve<Out, C>, Device, false>, kOut, kStyle.is_ready>...>
        outputs{OutputSlot<Placed<Resolve<Out, C>, Device, false>, kOut, kStyle.is_ready>(
            call, kO, state, shapes)...};
    Context context(state, call);
    const auto run = [&](auto&&... leading) {
      if constexpr (kStyle.takes_attributes) {
        return kernel(std::forward<decltype(leading)>(leading)..., std::get<kI>(inputs).Get()...,
                      std::get<kO>(outputs).Get()...,
                      AttributeSlot<A, kA>::Get(state.attributes[kT])...);
      } else {
        return kernel(std::forward<decltype(leading)>(leading)..., std::get<kI>(inputs).Get()...,
                      std::get<kO>(outputs).Get()...);
      }
    };
    const auto run_in_style = [&] {
      if constexpr (kStyle.takes_context) {
        return run(context);
      } else {
        return run();
      }
    };
    using Result = decltype(run_in_style());
    static_assert(std::is_void_v<Result> || std::is_convertible_v<Result, Status>,
                  "a kernel returns nothing, or an opgraft::Status");
    Status status;
    if constexpr (std::is_void_v<Result>) {
      run_in_style();
    } else {
      status = run_in_style();
    }
    if (status.ok()) (std::get<kO>(outputs).Finish(), ...);
    return status;
  }
};

/// Makes the method Compute of a kernel class callable like a function.
template <class Kernel>
struct MethodOf {
  const Kernel& kernel;

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const
      -> decltype(kernel.Compute(std::forward<Arguments>(arguments)...)) {
    return kernel.Compute(std::forward<Arguments>(arguments)...);
  }
};

/// A kernel that is a function or a callable object; all nodes share it.
template <class Binding, class F>
struct FunctionKernel final : KernelDefinition {
  static constexpr Style kStyle = Binding::template FindStyle<const F&, false>();
  static_assert(!kStyle.fits || Binding::template kFunctionKeepsNumbers<F, kStyle.is_ready>,
                "a kernel parameter converts the number of an attribute: kernels take FLOAT "
                "attributes as float and INT attributes as std::int64_t, in the order declared");

  FunctionKernel(const OperatorDefinition& owner, F callable)
      : definition(owner), function(std::move(callable)) {
    create = [](const OpgraftKernel* self, OpgraftNode* node, void** state) {
      return Guard(node, [&] {
        *state = new State(static_cast<const FunctionKernel&>(*self), node);
        return Status();
      });
    };
    compute = [](void* state, OpgraftCall* call) {
      const State& self = *static_cast<const State*>(state);
      return Guard(call, [&] {
        return Binding::template Call<kStyle>(self.kernel.function, self.node, call);
      });
    };
    destroy = [](void* state) { delete static_cast<State*>(state); };
  }

  struct State {
    State(const FunctionKernel& owner, OpgraftNode* host_node)
        : kernel(owner), node(owner.definition, owner, host_node) {}
    const FunctionKernel& kernel;
    const NodeState node;
  };
  const OperatorDefinition& definition;
  const F function;
};

/// A kernel that is a class with a constructor and a method Compute.
template <class Binding, class Kernel>
struct ClassKernel final : KernelDefinition {
  static constexpr Style kStyle = Binding::template FindStyle<MethodOf<Kernel>, true>();
  static_assert(!kStyle.fits || !kStyle.takes_attributes ||
                    Binding::template kMethodKeepsNumbers<Kernel>,
                "a kernel parameter converts the number of an attribute: kernels take FLOAT "
                "attributes as float and INT attributes as std::int64_t, in the order declared");
  static constexpr bool kTakesInfo = std::is_constructible_v<Kernel, const KernelInfo&>;
  static_assert(kTakesInfo || std::is_default_constructible_v<Kernel>,
                "a kernel class needs a default constructor, or one that takes a const "
                "opgraft::KernelInfo&");

  explicit ClassKernel(const OperatorDefinition& owner) : definition(owner) {
    create = [](const OpgraftKernel* self, OpgraftNode* node, void** state) {
      return Guard(node, [&] {
        *state = new State(static_cast<const ClassKernel&>(*self), node);
        return Status();
      });
    };
    compute = [](void* state, OpgraftCall* call) {
      const State& self = *static_cast<const State*>(state);
      return Guard(call, [&] {
        return Binding::template Call<kStyle>(MethodOf<Kernel>{self.kernel}, self.node, call);
      });
    };
    destroy = [](void* state) { delete static_cast<State*>(state); };
  }

  struct State {
    State(const ClassKernel& owner, OpgraftNode* host_node)
        : node(owner.definition, owner, host_node), kernel(Make(KernelInfo(node, host_node))) {}
    static Kernel Make(const KernelInfo& info) {
      if constexpr (kTakesInfo) {
        return Kernel(info);
      } else {
        return Kernel();
      }
    }
    const NodeState node;
    const Kernel kernel;
  };
  const OperatorDefinition& definition;
};

}  // namespace opgraft::internal
#pragma GCC visibility pop
