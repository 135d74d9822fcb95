// From a typed kernel to the C contract: which arguments it gets, in which order, and from where.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/definition.h"
#include "opgraft/kernel.h"
#include "opgraft/status.h"
#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

template <class... Members>
struct List {};

/// A declared input or output.
template <class T, int kOccurrence>
struct Value {};

/// A declared attribute; as std::optional where it has no default and need not be there.
template <class A, bool kIsOptional>
struct AttributeOf {};

/// What a type variable is in one of an operator's kernels.
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

/// A few tensors, without a visit to the heap.
class InputTensors {
 public:
  InputTensors(OpgraftCall* call, std::size_t count) : count_(count) {
    if (count > few_.size()) many_.resize(count);
    for (std::size_t i = 0; i < count; ++i) Check(call->table->input(call, i, data() + i));
  }
  /// One that is not there where the node has fewer.
  OpgraftTensor operator[](std::size_t index) const {
    return index < count_ ? view()[index] : OpgraftTensor{};
  }
  std::size_t size() const { return count_; }
  std::span<const OpgraftTensor> view() const {
    return {many_.empty() ? few_.data() : many_.data(), count_};
  }

 private:
  OpgraftTensor* data() { return many_.empty() ? few_.data() : many_.data(); }

  std::size_t count_;
  std::array<OpgraftTensor, 4> few_;
  std::vector<OpgraftTensor> many_;
};

/// An input as the kernel takes it.
template <class T>
class InputView {
 public:
  using Argument = Tensor<const T>;

  explicit InputView(const OpgraftTensor& tensor) {
    if (tensor.element_type != kElementType<T>) {
      throw std::invalid_argument("an input is of ONNX's type number " +
                                  std::to_string(tensor.element_type) + ", expected " +
                                  std::to_string(kElementType<T>));
    }
    view_ = Argument(static_cast<const T*>(tensor.data), {tensor.shape, tensor.rank});
  }
  Argument Get() const { return view_; }

 private:
  Argument view_;
};

template <>
class InputView<std::string> {
 public:
  using Argument = Tensor<const std::string>;

  explicit InputView(const OpgraftTensor& tensor)
      : strings_(ToStrings(tensor)), shape_(tensor.shape, tensor.rank) {}
  Argument Get() const { return {strings_.data(), shape_}; }

 private:
  std::vector<std::string> strings_;
  std::span<const std::int64_t> shape_;
};

template <>
class InputView<Any> {
 public:
  using Argument = AnyTensor;

  explicit InputView(const OpgraftTensor& tensor) : tensor_(tensor) {
    if (tensor.element_type == kElementType<std::string>) strings_ = ToStrings(tensor);
  }
  Argument Get() const {
    const bool is_text = tensor_.element_type == kElementType<std::string>;
    const void* const data = is_text ? strings_.data() : tensor_.data;
    return {data, tensor_.element_type, {tensor_.shape, tensor_.rank}};
  }

 private:
  OpgraftTensor tensor_;
  std::vector<std::string> strings_;
};

/// The argument for a declared input. `index` is its place among the inputs.
template <class T, int kOccurrence>
class InputSlot;

template <class T>
class InputSlot<T, OPGRAFT_REQUIRED> {
 public:
  using Argument = typename InputView<T>::Argument;
  InputSlot(const InputTensors& tensors, std::size_t index) : view_(tensors[index]) {}
  Argument Get() const { return view_.Get(); }

 private:
  InputView<T> view_;
};

template <class T>
class InputSlot<T, OPGRAFT_OPTIONAL> {
 public:
  using Argument = std::optional<typename InputView<T>::Argument>;
  InputSlot(const InputTensors& tensors, std::size_t index) {
    if (tensors[index].element_type != 0) view_.emplace(tensors[index]);
  }
  Argument Get() const { return view_ ? Argument(view_->Get()) : std::nullopt; }

 private:
  std::optional<InputView<T>> view_;
};

template <class T>
class InputSlot<T, OPGRAFT_VARIADIC> {
 public:
  using Element = typename InputView<T>::Argument;
  using Argument = std::span<const Element>;
  InputSlot(const InputTensors& tensors, std::size_t index) {
    for (std::size_t i = index; i < tensors.size(); ++i) views_.emplace_back(tensors[i]);
    for (const InputView<T>& view : views_) arguments_.push_back(view.Get());
  }
  Argument Get() const { return arguments_; }

 private:
  std::vector<InputView<T>> views_;
  std::vector<Element> arguments_;
};

/// One output: memory of the host's, or of the call where nobody wants it.
template <class T>
class OutputMemory final : public OutputSource<T> {
 public:
  OutputMemory(OpgraftCall* call, std::size_t index) : call_(call), index_(index) {}

  Tensor<T> Allocate(std::span<const std::int64_t> shape) override {
    if (Find(shape)) return *tensor_;
    std::size_t size = sizeof(T);
    for (const std::int64_t one : shape) size *= static_cast<std::size_t>(one);
    void* memory = nullptr;
    Check(call_->table->scratch(call_, size, &memory));
    return {static_cast<T*>(memory), shape};
  }
  /// False where nobody wants it.
  bool Find(std::span<const std::int64_t> shape) {
    OpgraftTensor tensor = {};
    Check(call_->table->output(call_, index_, shape.data(), shape.size(), &tensor));
    if (tensor.element_type == 0) return false;
    if (tensor.element_type != kElementType<T>) {
      throw std::invalid_argument("output " + std::to_string(index_) +
                                  " is of ONNX's type number " +
                                  std::to_string(tensor.element_type) + ", expected " +
                                  std::to_string(kElementType<T>));
    }
    tensor_.emplace(static_cast<T*>(tensor.data),
                    std::span<const std::int64_t>(tensor.shape, tensor.rank));
    return true;
  }
  const std::optional<Tensor<T>>& tensor() const { return tensor_; }
  void Store() {}

 private:
  OpgraftCall* const call_;
  const std::size_t index_;
  std::optional<Tensor<T>> tensor_;
};

template <>
class OutputMemory<std::string> final : public OutputSource<std::string> {
 public:
  OutputMemory(OpgraftCall* call, std::size_t index) : call_(call), index_(index) {}

  Tensor<std::string> Allocate(std::span<const std::int64_t> shape) override {
    Find(shape);
    return *tensor_;
  }
  bool Find(std::span<const std::int64_t> shape) {
    shape_.assign(shape.begin(), shape.end());
    std::size_t size = 1;
    for (const std::int64_t one : shape) size *= static_cast<std::size_t>(one);
    strings_.resize(size);
    tensor_.emplace(strings_.data(), shape_);
    return true;
  }
  const std::optional<Tensor<std::string>>& tensor() const { return tensor_; }
  void Store() {
    if (!tensor_) return;
    std::vector<OpgraftText> texts;
    for (const std::string& text : strings_) texts.push_back({text.data(), text.size()});
    Check(call_->table->store_texts(call_, index_, shape_.data(), shape_.size(), texts.data()));
  }

 private:
  OpgraftCall* const call_;
  const std::size_t index_;
  std::vector<std::int64_t> shape_;
  std::vector<std::string> strings_;
  std::optional<Tensor<std::string>> tensor_;
};

/// The argument for a declared output: ready-made where the shape rule has told the shape, or open,
/// for a kernel that finds it out itself.
template <class T, int kOccurrence, bool kIsReady>
class OutputSlot {
 public:
  using Argument = std::conditional_t<
      !kIsReady, Output<T>,
      std::conditional_t<kOccurrence == OPGRAFT_OPTIONAL, std::optional<Tensor<T>>, Tensor<T>>>;

  OutputSlot(OpgraftCall* call, std::size_t index, std::size_t count, const OutputShapes* shapes)
      : memory_(call, index) {
    if constexpr (kIsReady && kOccurrence == OPGRAFT_OPTIONAL) {
      if (index < count && memory_.Find((*shapes)[index])) tensor_ = *memory_.tensor();
    } else if constexpr (kIsReady) {
      tensor_ = memory_.Allocate((*shapes)[index]);
    }
  }
  Argument Get() {
    if constexpr (kIsReady) {
      return tensor_;
    } else {
      return Argument(&memory_);
    }
  }
  void Store() { memory_.Store(); }

 private:
  struct None {};
  OutputMemory<T> memory_;
  [[no_unique_address]] std::conditional_t<kIsReady, Argument, None> tensor_;
};

template <class T, bool kIsReady>
class OutputSlot<T, OPGRAFT_VARIADIC, kIsReady> {
 public:
  using Element = std::conditional_t<kIsReady, Tensor<T>, Output<T>>;
  using Argument = std::span<const Element>;

  OutputSlot(OpgraftCall* call, std::size_t index, std::size_t count, const OutputShapes* shapes) {
    memories_.reserve(count);
    for (std::size_t i = index; i < count; ++i) memories_.emplace_back(call, i);
    for (std::size_t i = index; i < count; ++i) {
      OutputMemory<T>& memory = memories_[i - index];
      if constexpr (kIsReady) {
        arguments_.push_back(memory.Allocate((*shapes)[i]));
      } else {
        arguments_.push_back(Element(&memory));
      }
    }
  }
  Argument Get() { return arguments_; }
  void Store() {
    for (OutputMemory<T>& memory : memories_) memory.Store();
  }

 private:
  std::vector<OutputMemory<T>> memories_;
  std::vector<Element> arguments_;
};

/// An attribute as the kernel takes it.
template <class A, bool kIsOptional>
struct AttributeSlot {
  using Argument = std::conditional_t<std::is_arithmetic_v<A>, A, const A&>;
  static Argument Get(const AttributeValue& value) { return std::get<A>(value); }
};
template <class A>
struct AttributeSlot<A, true> {
  using Argument = std::optional<A>;
  static Argument Get(const AttributeValue& value) {
    const A* const found = std::get_if<A>(&value);
    return found != nullptr ? Argument(*found) : std::nullopt;
  }
};

/// How a kernel wants to be called.
struct Style {
  bool fits = false;
  bool is_ready = true;
  bool takes_context = false;
  bool takes_attributes = true;
};

/// The ways of calling a kernel for one combination of types.
template <class Inputs, class Outputs, class Attributes, class Combination>
struct Binding;

template <class... In, int... kIn, class... Out, int... kOut, class... A, bool... kA, class C>
struct Binding<List<Value<In, kIn>...>, List<Value<Out, kOut>...>, List<AttributeOf<A, kA>...>, C> {
  template <class F, bool kIsReady, class... More>
  static constexpr bool kTakes = std::is_invocable_v<
      F, typename InputSlot<Resolve<In, C>, kIn>::Argument...,
      typename OutputSlot<Resolve<Out, C>, kOut, kIsReady>::Argument..., More...>;
  template <class F, bool kIsReady, class... More>
  static constexpr bool kTakesContext = std::is_invocable_v<
      F, Context&, typename InputSlot<Resolve<In, C>, kIn>::Argument...,
      typename OutputSlot<Resolve<Out, C>, kOut, kIsReady>::Argument..., More...>;

  /// The first way that fits; each is tried only where those before it do not.
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
    const std::tuple<InputSlot<Resolve<In, C>, kIn>...> inputs{
        InputSlot<Resolve<In, C>, kIn>(tensors, kI)...};
    std::tuple<OutputSlot<Resolve<Out, C>, kOut, kStyle.is_ready>...> outputs{
        OutputSlot<Resolve<Out, C>, kOut, kStyle.is_ready>(call, kO, state.output_count,
                                                           shapes)...};
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
    if (status.ok()) (std::get<kO>(outputs).Store(), ...);
    return status;
  }
};

/// The method Compute of a kernel with state, as a function.
template <class Kernel>
struct MethodOf {
  const Kernel& kernel;

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const
      -> decltype(kernel.Compute(std::forward<Arguments>(arguments)...)) {
    return kernel.Compute(std::forward<Arguments>(arguments)...);
  }
};

/// A kernel that is a function or an object that can be called; all its states share it.
template <class Binding, class F>
struct FunctionKernel final : KernelDefinition {
  static constexpr Style kStyle = Binding::template FindStyle<const F&, false>();

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
    State(const FunctionKernel& made_from, OpgraftNode* of)
        : kernel(made_from), node(made_from.definition, of) {}
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
  static constexpr bool kTakesInfo = std::is_constructible_v<Kernel, const KernelInfo&>;
  static_assert(kTakesInfo || std::is_default_constructible_v<Kernel>,
                "a class that is a kernel has a constructor that takes nothing, or a const "
                "opgraft::KernelInfo&");

  explicit ClassKernel(const OperatorDefinition& owner) : definition(owner) {
    create = [](const OpgraftKernel* self, OpgraftNode* node, void** state) {
      return Guard(node, [&] {
        *state = new State(static_cast<const ClassKernel&>(*self).definition, node);
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
    State(const OperatorDefinition& definition, OpgraftNode* of)
        : node(definition, of), kernel(Make(KernelInfo(node, of))) {}
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
