// Shape rules: from what is known of an operator's inputs to what is known of its outputs.
//
// A rule is asked while a model is loaded, when some sizes are names and some are not known at all,
// and again in each run, when all are known, to find out how much memory the outputs need.
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

#pragma GCC visibility push(hidden)  // each pack has its own
namespace opgraft {

/// Thrown where shapes do not go together. A rule may throw it; it becomes a ModelError.
class ShapeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A size that need not be known: a number, a symbol such as "n" or "2*n", or neither.
class Dim {
 public:
  /// One that is not known.
  Dim() = default;
  /// Throws where it is negative.
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a size
  Dim(std::int64_t size) : size_(size) {
    if (size < 0) throw ShapeError("a size would be " + std::to_string(size));
  }
  /// One that a model calls so, whatever the text.
  static Dim Symbol(std::string symbol) {
    Dim made;
    if (!symbol.empty()) made.Name(internal::SizeExpression::Named(std::move(symbol)));
    return made;
  }

  bool IsKnown() const { return size_ >= 0; }
  /// -1 where it is not known.
  std::int64_t size() const { return size_; }
  /// Empty where there is none.
  std::string_view symbol() const {
    if (symbol_ == nullptr) return {};
    return symbol_->text;
  }
  /// Whether the symbol is no name, but made of some.
  bool IsComputed() const { return symbol_ != nullptr && !symbol_->expression.IsName(); }

  /// Whether two sizes are the same; nullopt where that cannot be told yet.
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
  /// Rounds down. Throws where `b` is 0.
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

  /// Longer symbols are forgotten: in a long chain of operators they would grow without end.
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

/// The place of `axis`, -1 being the last one, in a shape of `rank`; throws where there is none.
inline std::size_t AxisOf(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw ShapeError("there is no axis " + std::to_string(axis) + " in a shape of rank " +
                     std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

/// What a rule may ask, and where it says what it found.
class ShapeContext {
 public:
  virtual ~ShapeContext() = default;

  virtual std::size_t input_count() const = 0;
  /// nullopt where the host does not tell.
  virtual std::optional<std::size_t> output_count() const = 0;
  /// False for an optional input that is absent.
  virtual bool HasInput(std::size_t index) const = 0;
  /// nullopt where the input is absent, or not even its rank is known.
  virtual std::optional<Shape> Input(std::size_t index) const = 0;
  /// As in the node, or the default, or monostate.
  virtual AttributeValue AnyAttribute(std::string_view name) const = 0;
  /// The elements of an input of int64 or int32 where they are known already.
  virtual std::optional<std::vector<std::int64_t>> Integers(std::size_t index) const = 0;
  /// The place of the input called `name`.
  virtual std::size_t IndexOf(std::string_view name) const = 0;
  virtual void SetOutput(std::size_t index, Shape shape) = 0;

  /// nullopt where there is none of this name and kind.
  template <class A>
  std::optional<A> Attribute(std::string_view name) const {
    AttributeValue value = AnyAttribute(name);
    A* const found = std::get_if<A>(&value);
    return found != nullptr ? std::optional<A>(std::move(*found)) : std::nullopt;
  }
  std::optional<Shape> Input(std::string_view name) const { return Input(IndexOf(name)); }
};

/// What a rule refers to, so that a name that is none is found out when the pack is loaded.
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

  // NOLINTNEXTLINE(google-explicit-constructor): a number is a size
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

/// The size of an input's axis; -1 is the last one.
DimRule SizeOf(std::string input, std::int64_t axis);
/// The size that an attribute of kind INT gives.
DimRule SizeFrom(std::string attribute);

/// The shape of one output. The named rules below make one; the methods make another out of it.
class ShapeRule {
 public:
  /// nullopt where the rank cannot be told.
  using Function = std::function<std::optional<Shape>(const ShapeContext&)>;

  ShapeRule(Function function, ShapeNames names)
      : function_(std::move(function)), names_(std::move(names)) {}

  std::optional<Shape> operator()(const ShapeContext& context) const { return function_(context); }
  const ShapeNames& names() const { return names_; }

  /// Leaves out an axis.
  ShapeRule Without(std::int64_t axis) const;
  /// Gives an axis another size.
  ShapeRule With(std::int64_t axis, DimRule size) const;
  /// The first axes, all but `count` from the end; the last `count`.
  ShapeRule WithoutLast(std::size_t count) const;
  ShapeRule Last(std::size_t count) const;
  /// The axes of another rule behind these.
  ShapeRule Then(ShapeRule more) const;

  /// The name of the input whose shape this is, unchanged; empty for other rules.
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
/// The common shape of the inputs named, as in NumPy; of all inputs that are there, if none is.
ShapeRule Broadcast(std::vector<std::string> inputs = {});
/// The shape of a matrix product, batches and vectors as in NumPy.
ShapeRule MatrixProduct(std::string a, std::string b);
/// The shape that an attribute of kind INTS holds.
ShapeRule FromAttribute(std::string attribute);
/// The shape that the elements of an input are; where they are known only when the model runs, the
/// rank at most is known before.
ShapeRule FromConstant(std::string input);
/// These sizes, none for a scalar.
ShapeRule Sizes(std::vector<DimRule> sizes);

namespace internal {

/// A rule for all outputs at once.
using ShapeFunction = std::function<void(ShapeContext&)>;

}  // namespace internal
}  // namespace opgraft
#pragma GCC visibility pop
