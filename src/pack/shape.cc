// The named shape rules.
#include "opgraft/shape.h"

#include <algorithm>

namespace opgraft {
namespace {

/// More than the axes of any tensor: limits the memory that a model can make us allocate.
constexpr std::int64_t kMostAxes = 64;

std::string SizeText(const Dim& dim) {
  return dim.IsKnown()          ? std::to_string(dim.size())
         : dim.symbol().empty() ? "?"
                                : std::string(dim.symbol());
}

std::string Text(const Shape& shape) {
  std::string text;
  for (const Dim& dim : shape) text += (text.empty() ? "" : ", ") + SizeText(dim);
  return "[" + text + "]";
}

/// Returns the size that two sizes broadcast to.
Dim BroadcastSizes(const Dim& a, const Dim& b, const Shape& left, const Shape& right) {
  if (a.IsKnown() && a.size() == 1) return b;
  if (b.IsKnown() && b.size() == 1) return a;
  const std::optional<bool> is_same = Equal(a, b);
  if (is_same == true) return a;
  if (is_same == false) {
    throw ShapeError("the shapes " + Text(left) + " and " + Text(right) + " cannot be broadcast: " +
                     SizeText(a) + " and " + SizeText(b) + " are different, and neither is 1");
  }
  // A known size other than 1 is the result: the other must be 1 or the same.
  if (a.IsKnown()) return a;
  return b.IsKnown() ? b : Dim();
}

Shape BroadcastShapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    shape[offset + i] = BroadcastSizes(longer[offset + i], shorter[i], a, b);
  }
  return shape;
}

Shape MultiplyShapes(Shape a, Shape b) {
  if (a.empty() || b.empty()) throw ShapeError("a matrix product cannot take a scalar");
  const bool is_row = a.size() == 1;
  const bool is_column = b.size() == 1;
  if (is_row) a.insert(a.begin(), Dim(1));
  if (is_column) b.emplace_back(1);
  if (Equal(a.back(), b[b.size() - 2]) == false) {
    throw ShapeError("the matrices " + Text(a) + " and " + Text(b) + " cannot be multiplied: " +
                     SizeText(a.back()) + " columns, " + SizeText(b[b.size() - 2]) + " rows");
  }
  const Dim rows = a[a.size() - 2];
  const Dim columns = b.back();
  Shape shape = BroadcastShapes(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!is_row) shape.push_back(rows);
  if (!is_column) shape.push_back(columns);
  return shape;
}

Dim CheckedSize(std::int64_t size, const std::string& source) {
  if (size < 0) throw ShapeError("'" + source + "' gives the size " + std::to_string(size));
  return size;
}

}  // namespace

DimRule SizeOf(std::string input, std::int64_t axis) {
  ShapeNames names{{input}, {}};
  return {[input = std::move(input), axis](const ShapeContext& context) {
            const std::optional<Shape> shape = context.Input(input);
            return shape ? (*shape)[AxisOf(axis, shape->size())] : Dim();
          },
          std::move(names)};
}

DimRule SizeFrom(std::string attribute) {
  ShapeNames names{{}, {attribute}};
  return {[attribute = std::move(attribute)](const ShapeContext& context) {
            const auto size = context.Attribute<std::int64_t>(attribute);
            return size ? CheckedSize(*size, attribute) : Dim();
          },
          std::move(names)};
}

ShapeRule ShapeRule::Map(std::function<Shape(Shape, const ShapeContext&)> change,
                         const ShapeNames& more) const {
  return {[function = function_,
           change = std::move(change)](const ShapeContext& context) -> std::optional<Shape> {
            std::optional<Shape> shape = function(context);
            if (!shape) return std::nullopt;
            return change(std::move(*shape), context);
          },
          names_.With(more)};
}

ShapeRule ShapeRule::Without(std::int64_t axis) const {
  return Map(
      [axis](Shape shape, const ShapeContext&) {
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(AxisOf(axis, shape.size())));
        return shape;
      },
      {});
}

ShapeRule ShapeRule::With(std::int64_t axis, DimRule size) const {
  ShapeNames more = size.names();
  return Map(
      [axis, size = std::move(size)](Shape shape, const ShapeContext& context) {
        shape[AxisOf(axis, shape.size())] = size(context);
        return shape;
      },
      more);
}

ShapeRule ShapeRule::WithoutLast(std::size_t count) const {
  return Map(
      [count](Shape shape, const ShapeContext&) {
        if (shape.size() < count) {
          throw ShapeError("expected a rank of at least " + std::to_string(count) +
                           ", the shape is " + Text(shape));
        }
        shape.resize(shape.size() - count);
        return shape;
      },
      {});
}

ShapeRule ShapeRule::Last(std::size_t count) const {
  return Map(
      [count](Shape shape, const ShapeContext&) {
        if (shape.size() < count) {
          throw ShapeError("expected a rank of at least " + std::to_string(count) +
                           ", the shape is " + Text(shape));
        }
        return Shape(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end());
      },
      {});
}

ShapeRule ShapeRule::Then(ShapeRule more) const {
  ShapeNames names = names_.With(more.names());
  return {[first = function_,
           more = std::move(more)](const ShapeContext& context) -> std::optional<Shape> {
            std::optional<Shape> shape = first(context);
            const std::optional<Shape> behind = more(context);
            if (!shape || !behind) return std::nullopt;
            shape->insert(shape->end(), behind->begin(), behind->end());
            return shape;
          },
          std::move(names)};
}

ShapeRule SameAs(std::string input) {
  ShapeRule rule([input](const ShapeContext& context) { return context.Input(input); },
                 {{input}, {}});
  rule.same_as_ = std::move(input);
  return rule;
}

ShapeRule Broadcast(std::vector<std::string> inputs) {
  ShapeNames names{inputs, {}};
  return {[inputs = std::move(inputs)](const ShapeContext& context) -> std::optional<Shape> {
            std::vector<std::size_t> places;
            for (const std::string& name : inputs) places.push_back(context.IndexOf(name));
            for (std::size_t i = 0; inputs.empty() && i < context.input_count(); ++i) {
              places.push_back(i);
            }
            Shape shape;
            for (const std::size_t place : places) {
              if (!context.HasInput(place)) continue;
              const std::optional<Shape> next = context.Input(place);
              if (!next) return std::nullopt;
              shape = BroadcastShapes(shape, *next);
            }
            return shape;
          },
          std::move(names)};
}

ShapeRule MatrixProduct(std::string a, std::string b) {
  ShapeNames names{{a, b}, {}};
  return {
      [a = std::move(a), b = std::move(b)](const ShapeContext& context) -> std::optional<Shape> {
        std::optional<Shape> left = context.Input(a);
        std::optional<Shape> right = context.Input(b);
        if (!left || !right) return std::nullopt;
        return MultiplyShapes(std::move(*left), std::move(*right));
      },
      std::move(names)};
}

ShapeRule FromAttribute(std::string attribute) {
  ShapeNames names{{}, {attribute}};
  return {[attribute = std::move(attribute)](const ShapeContext& context) -> std::optional<Shape> {
            const auto sizes = context.Attribute<std::vector<std::int64_t>>(attribute);
            if (!sizes) return std::nullopt;
            Shape shape;
            for (const std::int64_t size : *sizes) shape.push_back(CheckedSize(size, attribute));
            return shape;
          },
          std::move(names)};
}

ShapeRule FromConstant(std::string input) {
  ShapeNames names{{input}, {}};
  return {[input = std::move(input)](const ShapeContext& context) -> std::optional<Shape> {
            const std::size_t place = context.IndexOf(input);
            if (const auto sizes = context.Integers(place)) {
              Shape shape;
              for (const std::int64_t size : *sizes) shape.push_back(CheckedSize(size, input));
              return shape;
            }
            const std::optional<Shape> shape = context.Input(place);
            if (!shape || shape->size() != 1 || !shape->front().IsKnown()) return std::nullopt;
            if (shape->front().size() > kMostAxes) return std::nullopt;
            return Shape(static_cast<std::size_t>(shape->front().size()));
          },
          std::move(names)};
}

ShapeRule Sizes(std::vector<DimRule> sizes) {
  ShapeNames names;
  for (const DimRule& size : sizes) names = names.With(size.names());
  return {[sizes = std::move(sizes)](const ShapeContext& context) -> std::optional<Shape> {
            Shape shape;
            for (const DimRule& size : sizes) shape.push_back(size(context));
            return shape;
          },
          std::move(names)};
}

}  // namespace opgraft
