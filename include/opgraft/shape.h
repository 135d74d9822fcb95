// Shape rules: infer the shapes of an operator's outputs from those of its inputs.
//
// A rule is evaluated while a model is loaded, when some sizes are symbols or unknown, and again in
// each run, when all sizes are known, to find out how much memory the outputs need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/size_expression.h"

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft {

/// Thrown if shapes do not match. A rule may throw it; it becomes a ModelError.
class ShapeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A size, which may be known as a number, as a symbol such as "n" or "2*n", or not at all.
class Dim {
 public:
  /// An unknown size.
  Dim() = default;
  /// Throws if the size is negative.
  // NOLINTNEXTLINE(google-explicit-constructor): numbers are sizes
  Dim(std::int64_t size) : size_(size) {
    if (size < 0) throw ShapeError("a size would be " + std::to_string(size));
  }
  /// A size that a model names with this text, whatever the text is.
  static Dim Symbol(std::string symbol) {
    Dim made;
    if (!symbol.empty()) made.Name(internal::SizeExpression::Named(std::move(symbol)));
    return made;
  }

  bool IsKnown() const { return size_ >= 0; }
  /// Returns -1 if the size is not known.
  std::int64_t size() const { return size_; }
  /// Returns an empty text if there is no symbol.
  std::string_view symbol() const {
    if (symbol_ == nullptr) return {};
    return symbol_->text;
  }
  /// Whether the symbol is an expression rather than a single name.
  bool IsComputed() const { return symbol_ != nullptr && !symbol_->expression.IsName(); }

  /// Returns whether two sizes are equal, or nullopt if that is not known yet.
  friend std::optional<bool> Equal(const Dim& a, const Dim& b) {
    if (a.IsKnown() && b.IsKnown()) return a.size_ == b.size_;
    if (a.symbol_ == nullptr || b.symbol_ == nullptr) return std::nullopt;
    return a.symbol_->expression == b.symbol_->expression ? std::optional(true) : std::nullopt;
  }

  friend Dim operator+(const Dim& a, const Dim& b) {
    if (a.size_ == 0) return b;
    if (b.size_ == 0) return a;
    std::int64_t sum = 0;
    const bool is_too_large = __builtin_add_overflow(a.size_, b.size_, &sum);
    return Combine(a, b, '+', is_too_large, sum, [](auto& x, auto& y) { return x + y; });
  }
  friend Dim operator-(const Dim& a, const Dim& b) {
    if (b.size_ == 0) return a;
    return Combine(a, b, '-', false, a.size_ - b.size_, [](auto& x, auto& y) { return x - y; });
  }
  friend Dim operator*(const Dim& a, const Dim& b) {
    if (a.size_ == 1 || b.size_ == 0) return b;
    if (b.size_ == 1 || a.size_ == 0) return a;
    std::int64_t product = 0;
    const bool is_too_large = __builtin_mul_overflow(a.size_, b.size_, &product);
    return Combine(a, b, '*', is_too_large, product, [](auto& x, auto& y) { return x * y; });
  }
  /// Rounds down. Throws if `b` is 0.
  friend Dim operator/(const Dim& a, const Dim& b) {
    if (b.size_ == 0) throw ShapeError("a size is divided by 0");
    if (b.size_ == 1) return a;
    const std::int64_t quotient = b.IsKnown() ? a.size_ / b.size_ : 0;
    return Combine(a, b, '/', false, quotient, [](auto& x, auto& y) { return x / y; });
  }

 private:
  struct Symbolic {
    internal::SizeExpression expression;
    std::string text;
  };

  /// Longer symbols are dropped: they would grow without limit in a long chain of operators.
  static constexpr std::size_t kLongestSymbol = 100;

  bool IsOpen() const { return !IsKnown() && symbol_ == nullptr; }
  internal::SizeExpression Expression() const { return IsKnown() ? size_ : symbol_->expression; }
  void Name(internal::SizeExpression expression) {
    std::string text = expression.Text();
    symbol_ = std::make_shared<const Symbolic>(std::move(expression), std::move(text));
  }
  template <class Operation>
  static Dim Combine(const Dim& a, const Dim& b, char sign, bool is_too_large, std::int64_t value,
                     Operation operation) {
    if (a.IsKnown() && b.IsKnown()) {
      if (!is_too_large) return value;
      throw ShapeError("a size would be " + std::to_string(a.size_) + sign +
                       std::to_string(b.size_));
    }
    Dim made;
    if (a.IsOpen() || b.IsOpen()) return made;
    try {
      const internal::SizeExpression left = a.Expression();
      const internal::SizeExpression right = b.Expression();
      internal::SizeExpression result = operation(left, right);
      if (const std::optional<std::int64_t> number = result.number()) return *number;
      made.Name(std::move(result));
    } catch (const std::overflow_error&) {
      return {};
    }
    return made.symbol().size() > kLongestSymbol ? Dim() : made;
  }

  std::int64_t size_ = -1;
  std::shared_ptr<const Symbolic> symbol_;
};

using Shape = std::vector<Dim>;

/// Returns the position of `axis`, of which -1 is the last one; throws if there is none.
inline std::size_t AxisOf(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw ShapeError("there is no axis " + std::to_string(axis) + " in a shape of rank " +
                     std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

/// The queries of a shape rule, and its results.
class ShapeContext {
 public:
  virtual ~ShapeContext() = default;

  virtual std::size_t input_count() const = 0;
  /// Returns nullopt if the host does not know it.
  virtual std::optional<std::size_t> output_count() const = 0;
  /// Returns false for an optional input that is absent.
  virtual bool HasInput(std::size_t index) const = 0;
  /// Returns nullopt if the input is absent or its rank is not known.
  virtual std::optional<Shape> Input(std::size_t index) const = 0;
  /// Returns the node's value, the default, or monostate.
  virtual AttributeValue AnyAttribute(std::string_view name) const = 0;
  /// Returns the elements of an int64 or int32 input if they are already known.
  virtual std::optional<std::vector<std::int64_t>> Integers(std::size_t index) const = 0;
  /// Returns the position of the input with this name.
  virtual std::size_t IndexOf(std::string_view name) const = 0;
  virtual void SetOutput(std::size_t index, Shape shape) = 0;

  /// Returns nullopt if there is no attribute of this name and kind.
  template <class A>
  std::optional<A> Attribute(std::string_view name) const {
    AttributeValue value = AnyAttribute(name);
    A* const found = std::get_if<A>(&value);
    return found != nullptr ? std::optional<A>(std::move(*found)) : std::nullopt;
  }
  std::optional<Shape> Input(std::string_view name) const { return Input(IndexOf(name)); }
};

/// The names that a rule uses, so that an unknown name is reported when the pack is loaded.
struct ShapeNames {
  std::vector<std::string> inputs;
  std::vector<std::string> attributes;

  ShapeNames With(const ShapeNames& more) const {
    ShapeNames both = *this;
    both.inputs.insert(both.inputs.end(), more.inputs.begin(), more.inputs.end());
    both.attributes.insert(both.attributes.end(), more.attributes.begin(), more.attributes.end());
    return both;
  }
};

/// One size of an output's shape.
class DimRule {
 public:
  using Function = std::function<Dim(const ShapeContext&)>;

  // NOLINTNEXTLINE(google-explicit-constructor): numbers are sizes
  DimRule(std::int64_t size) : function_([size](const ShapeContext&) { return Dim(size); }) {}
  DimRule(int size) : DimRule(std::int64_t{size}) {}  // NOLINT(google-explicit-constructor)
  DimRule(Function function, ShapeNames names)
      : function_(std::move(function)), names_(std::move(names)) {}

  Dim operator()(const ShapeContext& context) const { return function_(context); }
  const ShapeNames& names() const { return names_; }

  friend DimRule operator+(const DimRule& a, const DimRule& b) {
    return Join(a, b, [](const Dim& x, const Dim& y) { return x + y; });
  }
  friend DimRule operator-(const DimRule& a, const DimRule& b) {
    return Join(a, b, [](const Dim& x, const Dim& y) { return x - y; });
  }
  friend DimRule operator*(const DimRule& a, const DimRule& b) {
    return Join(a, b, [](const Dim& x, const Dim& y) { return x * y; });
  }
  friend DimRule operator/(const DimRule& a, const DimRule& b) {
    return Join(a, b, [](const Dim& x, const Dim& y) { return x / y; });
  }

 private:
  template <class Operation>
  static DimRule Join(const DimRule& a, const DimRule& b, Operation operation) {
    return {[a, b, operation](const ShapeContext& context) {
              return operation(a(context), b(context));
            },
            a.names_.With(b.names_)};
  }

  Function function_;
  ShapeNames names_;
};

/// The size of an input's axis; -1 is the last axis.
DimRule SizeOf(std::string input, std::int64_t axis);
/// The size that an attribute of kind INT gives.
DimRule SizeFrom(std::string attribute);

/// The shape of one output. The functions below make rules; the methods derive others from them.
class ShapeRule {
 public:
  /// Returns nullopt if the rank is not known.
  using Function = std::function<std::optional<Shape>(const ShapeContext&)>;

  ShapeRule(Function function, ShapeNames names)
      : function_(std::move(function)), names_(std::move(names)) {}

  std::optional<Shape> operator()(const ShapeContext& context) const { return function_(context); }
  const ShapeNames& names() const { return names_; }

  /// Removes an axis.
  ShapeRule Without(std::int64_t axis) const;
  /// Changes the size of an axis.
  ShapeRule With(std::int64_t axis, DimRule size) const;
  /// All axes except the last `count`; only the last `count`.
  ShapeRule WithoutLast(std::size_t count) const;
  ShapeRule Last(std::size_t count) const;
  /// Appends the axes of another rule.
  ShapeRule Then(ShapeRule more) const;

  /// The name of the input whose shape this rule returns unchanged; empty for other rules.
  const std::string& same_as() const { return same_as_; }

 private:
  friend ShapeRule SameAs(std::string input);
  ShapeRule Map(std::function<Shape(Shape, const ShapeContext&)> change,
                const ShapeNames& more) const;

  Function function_;
  ShapeNames names_;
  std::string same_as_;
};

/// The shape of an input.
ShapeRule SameAs(std::string input);
/// The broadcast shape of the named inputs, as in NumPy; of all inputs present if none is named.
ShapeRule Broadcast(std::vector<std::string> inputs = {});
/// The shape of a matrix product, with batches and vectors as in NumPy.
ShapeRule MatrixProduct(std::string a, std::string b);
/// The shape that an attribute of kind INTS holds.
ShapeRule FromAttribute(std::string attribute);
/// The shape that the elements of an input give. If they are known only when the model runs, at
/// most the rank is known before.
ShapeRule FromConstant(std::string input);
/// A shape of these sizes; no sizes for a scalar.
ShapeRule Sizes(std::vector<DimRule> sizes);

namespace internal {

/// A rule for all outputs at once.
using ShapeFunction = std::function<void(ShapeContext&)>;

}  // namespace internal
}  // namespace opgraft
#pragma GCC visibility pop
