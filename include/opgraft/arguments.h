// Turns the tensors and attributes of a call into the arguments that a kernel's parameters take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/definition.h"
#include "opgraft/kernel.h"
#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// The input tensors of a call. A few of them need no allocation.
class InputTensors {
 public:
  InputTensors(OpgraftCall* call, std::size_t count) : count_(count) {
    if (count > few_.size()) many_.resize(count);
    for (std::size_t i = 0; i < count; ++i) Check(call->table->input(call, i, data() + i));
  }
  /// Returns an absent tensor if the node has fewer inputs.
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

/// An input of one element type: a view of its memory, on the host or on a device.
template <class T, class View>
class TypedInputView {
 public:
  using Argument = View;

  TypedInputView(const OpgraftTensor& tensor, std::size_t index) {
    if (tensor.element_type != kElementType<T>) {
      RefuseType("input", index, tensor.element_type, kElementType<T>);
    }
    view_ = View(static_cast<const T*>(tensor.data), {tensor.shape, tensor.rank});
  }
  View Get() const { return view_; }

 private:
  View view_;
};

/// An input in the form that the kernel takes.
template <class T>
class InputView : public TypedInputView<T, Tensor<const T>> {
 public:
  using TypedInputView<T, Tensor<const T>>::TypedInputView;
};

template <>
class InputView<std::string> {
 public:
  using Argument = Tensor<const std::string>;

  InputView(const OpgraftTensor& tensor, std::size_t index)
      : strings_(ToStrings(tensor, index)), shape_(tensor.shape, tensor.rank) {}
  Argument Get() const { return {strings_.data(), shape_}; }

 private:
  std::vector<std::string> strings_;
  std::span<const std::int64_t> shape_;
};

template <>
class InputView<Any> {
 public:
  using Argument = AnyTensor;

  InputView(const OpgraftTensor& tensor, std::size_t index) : tensor_(tensor) {
    if (tensor.element_type == kElementType<std::string>) strings_ = ToStrings(tensor, index);
    if (tensor.element_type == 0) RefuseType("input", index, 0, 0);
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

/// The argument for a declared input. `index` is its position among the inputs.
template <class T, int kOccurrence>
class InputSlot;

template <class T>
class InputSlot<T, OPGRAFT_REQUIRED> {
 public:
  using Argument = typename InputView<T>::Argument;
  InputSlot(const InputTensors& tensors, std::size_t index) : view_(tensors[index], index) {}
  Argument Get() const { return view_.Get(); }

 private:
  InputView<T> view_;
};

template <class T>
class InputSlot<T, OPGRAFT_OPTIONAL> {
 public:
  using Argument = std::optional<typename InputView<T>::Argument>;
  InputSlot(const InputTensors& tensors, std::size_t index) {
    if (tensors[index].element_type != 0) view_.emplace(tensors[index], index);
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
    if (index < tensors.size()) views_.reserve(tensors.size() - index);
    for (std::size_t i = index; i < tensors.size(); ++i) views_.emplace_back(tensors[i], i);
    for (const InputView<T>& view : views_) arguments_.push_back(view.Get());
  }
  Argument Get() const { return arguments_; }

 private:
  std::vector<InputView<T>> views_;
  std::vector<Element> arguments_;
};

/// The element and view types that a kernel gets for an output declared as T.
template <class T>
struct OutputOf {
  using Element = T;
  using View = Tensor<T>;
};

/// One output: memory of the host, or scratch memory of the call if nothing uses the output.
template <class T>
class OutputMemory final : public OutputSource<typename OutputOf<T>::View> {
 public:
  using Element = typename OutputOf<T>::Element;
  using View = typename OutputOf<T>::View;

  OutputMemory(OpgraftCall* call, std::size_t index, const NodeState& state)
      : call_(call), index_(index), state_(state) {}

  bool IsWanted() const override { return index_ < state_.output_count; }
  View Allocate(std::span<const std::int64_t> shape) override {
    if (is_allocated_) RefuseSecond(state_, index_);
    is_allocated_ = true;
    shape_.assign(shape.begin(), shape.end());  // the caller's copy may be temporary
    return Make(shape_);
  }
  /// Like Allocate, for a shape that outlives the call.
  View Make(std::span<const std::int64_t> shape) {
    if (std::optional<View> found = Find(shape)) return *found;
    void* memory = nullptr;
    Check(call_->table->scratch(call_, CheckedCount(shape, sizeof(Element)) * sizeof(Element),
                                &memory));
    return {static_cast<Element*>(memory), shape};
  }
  /// Returns nullopt if nothing uses the output.
  std::optional<View> Find(std::span<const std::int64_t> shape) {
    static_cast<void>(CheckedCount(shape, sizeof(Element)));
    OpgraftTensor tensor = {};
    Check(call_->table->output(call_, index_, shape.data(), shape.size(), &tensor));
    if (tensor.element_type == 0) return std::nullopt;
    if (tensor.element_type != kElementType<Element>) {
      RefuseType("output", index_, tensor.element_type, kElementType<Element>);
    }
    return View(static_cast<Element*>(tensor.data), shape);
  }
  /// Throws if the kernel did not allocate an output that is used.
  void CheckAllocated() const {
    if (!is_allocated_ && IsWanted()) RefuseMissing(state_, index_);
  }
  void Store() {}

 private:
  OpgraftCall* const call_;
  const std::size_t index_;
  const NodeState& state_;
  bool is_allocated_ = false;
  std::vector<std::int64_t> shape_;
};

/// Strings belong to the call until the kernel is done; Store then hands them to the host.
template <>
class OutputMemory<std::string> final : public OutputSource<Tensor<std::string>> {
 public:
  OutputMemory(OpgraftCall* call, std::size_t index, const NodeState& state)
      : call_(call), index_(index), state_(state) {}

  bool IsWanted() const override { return index_ < state_.output_count; }
  Tensor<std::string> Allocate(std::span<const std::int64_t> shape) override {
    if (is_allocated_) RefuseSecond(state_, index_);
    return Make(shape);
  }
  Tensor<std::string> Make(std::span<const std::int64_t> shape) {
    strings_.resize(CheckedCount(shape, sizeof(std::string)));
    shape_.assign(shape.begin(), shape.end());
    is_allocated_ = true;
    return {strings_.data(), shape_};
  }
  std::optional<Tensor<std::string>> Find(std::span<const std::int64_t> shape) {
    return Make(shape);
  }
  void CheckAllocated() const {
    if (!is_allocated_ && IsWanted()) RefuseMissing(state_, index_);
  }
  void Store() {
    if (!is_allocated_) return;
    std::vector<OpgraftText> texts;
    texts.reserve(strings_.size());
    for (const std::string& text : strings_) texts.push_back({text.data(), text.size()});
    Check(call_->table->store_texts(call_, index_, shape_.data(), shape_.size(), texts.data()));
  }

 private:
  OpgraftCall* const call_;
  const std::size_t index_;
  const NodeState& state_;
  bool is_allocated_ = false;
  std::vector<std::int64_t> shape_;
  std::vector<std::string> strings_;
};

/// The argument for a declared output: a tensor if a shape rule gives the shape, else an
/// OpenOutput, for a kernel that determines the shape itself.
template <class T, int kOccurrence, bool kIsReady>
class OutputSlot {
 public:
  using View = typename OutputOf<T>::View;
  using Argument = std::conditional_t<
      !kIsReady, OpenOutput<View>,
      std::conditional_t<kOccurrence == OPGRAFT_OPTIONAL, std::optional<View>, View>>;

  OutputSlot(OpgraftCall* call, std::size_t index, const NodeState& state,
             const OutputShapes* shapes)
      : memory_(call, index, state) {
    if constexpr (kIsReady && kOccurrence == OPGRAFT_OPTIONAL) {
      if (memory_.IsWanted()) tensor_ = memory_.Find((*shapes)[index]);
    } else if constexpr (kIsReady) {
      tensor_ = memory_.Make((*shapes)[index]);
    }
  }
  Argument Get() {
    if constexpr (kIsReady) {
      return tensor_;
    } else {
      return Argument(&memory_);
    }
  }
  void Finish() {
    if constexpr (!kIsReady) memory_.CheckAllocated();
    memory_.Store();
  }

 private:
  struct None {};
  OutputMemory<T> memory_;
  [[no_unique_address]] std::conditional_t<kIsReady, Argument, None> tensor_;
};

template <class T, bool kIsReady>
class OutputSlot<T, OPGRAFT_VARIADIC, kIsReady> {
 public:
  using View = typename OutputOf<T>::View;
  using Element = std::conditional_t<kIsReady, View, OpenOutput<View>>;
  using Argument = std::span<const Element>;

  OutputSlot(OpgraftCall* call, std::size_t index, const NodeState& state,
             const OutputShapes* shapes) {
    for (std::size_t i = index; i < state.output_count; ++i) {
      OutputMemory<T>& memory = memories_.emplace_back(call, i, state);
      if constexpr (kIsReady) {
        arguments_.push_back(memory.Make((*shapes)[i]));
      } else {
        arguments_.push_back(Element(&memory));
      }
    }
  }
  Argument Get() { return arguments_; }
  void Finish() {
    for (OutputMemory<T>& memory : memories_) {
      if constexpr (!kIsReady) memory.CheckAllocated();
      memory.Store();
    }
  }

 private:
  std::deque<OutputMemory<T>> memories_;  // arguments_ points into it
  std::vector<Element> arguments_;
};

/// An attribute in the form that the kernel takes.
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

}  // namespace opgraft::internal
#pragma GCC visibility pop
