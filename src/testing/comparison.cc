// Compares element by element, depending on the type.
#include "comparison.h"

#include <cmath>
#include <cstdio>
#include <type_traits>

#include "opgraft/size_expression.h"

namespace opgraft::op_test {
namespace {

template <class... Types>
struct TypeList {};
using ElementTypes = TypeList<float, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                              std::int32_t, std::int64_t, std::string, bool, Float16, double,
                              std::uint32_t, std::uint64_t, BFloat16>;

/// Calls `visit` with a null pointer to the C++ type of `element_type`, if OpTester knows it.
template <class Visit, class... Types>
void VisitType(std::int32_t element_type, const Visit& visit, TypeList<Types...>) {
  ((kElementType<Types> == element_type ? visit(static_cast<Types*>(nullptr)) : void()), ...);
}

std::string NumberText(double number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, number);
  return text;
}

template <class T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <class T>
std::string Text(const T& element) {
  if constexpr (std::is_same_v<T, std::string>) {
    return "\"" + element + "\"";
  } else if constexpr (std::is_same_v<T, bool>) {
    return element ? "true" : "false";
  } else if constexpr (kIsFloat<T>) {
    constexpr int kDigits = sizeof(T) == 8 ? 17 : sizeof(T) == 4 ? 9 : 5;
    // The fewest digits that distinguish it from its neighbours.
    for (int digits = 1; digits < kDigits; ++digits) {
      const std::string text = NumberText(static_cast<double>(element), digits);
      if (static_cast<double>(T(std::strtod(text.c_str(), nullptr))) ==
          static_cast<double>(element)) {
        return text;
      }
    }
    return NumberText(static_cast<double>(element), kDigits);
  } else {
    return std::to_string(element);
  }
}

bool IsNear(double expected, double got, const OpTester::Tolerance& tolerance) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return expected == got;
  return std::abs(got - expected) <= tolerance.absolute + tolerance.relative * std::abs(expected);
}

template <class T>
bool IsSame(const T& expected, const T& got, const OpTester::Tolerance& tolerance) {
  if constexpr (kIsFloat<T>) {
    return IsNear(static_cast<double>(expected), static_cast<double>(got), tolerance);
  } else {
    return expected == got;
  }
}

template <class T>
std::string Difference(const T& expected, const T& got, const OpTester::Tolerance& tolerance) {
  if constexpr (kIsFloat<T>) {
    const double difference = std::abs(static_cast<double>(got) - static_cast<double>(expected));
    if (!std::isfinite(difference)) return "";
    return ", which is " + NumberText(difference, 3) + " away (tolerance " +
           NumberText(tolerance.absolute, 3) + " + " + NumberText(tolerance.relative, 3) +
           " * |expected|)";
  } else {
    return "";
  }
}

std::string IndexText(std::size_t index, std::span<const std::int64_t> shape) {
  std::string text;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[i]);
    text = std::to_string(index % size) + (text.empty() ? "" : ", ") + text;
    index /= size;
  }
  return "[" + text + "]";
}

template <class T>
std::string CompareElements(Tensor<const T> expected, Tensor<const T> got,
                            const OpTester::Tolerance& tolerance) {
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = expected.size(); i-- > 0;) {
    if (IsSame<T>(expected[i], got[i], tolerance)) continue;
    ++count;
    first = i;
  }
  if (count == 0) return "";
  std::string text = IndexText(first, expected.shape()) + ": expected " + Text<T>(expected[first]) +
                     ", got " + Text<T>(got[first]) +
                     Difference<T>(expected[first], got[first], tolerance);
  if (expected.size() > 1) {
    text += "; " + std::to_string(count) + " of " + std::to_string(expected.size()) +
            " elements differ";
  }
  return text;
}

/// The arithmetic for EvaluateSize.
struct Arithmetic {
  const Symbols& symbols;

  std::optional<std::int64_t> Find(std::string_view name) const {
    const auto found = symbols.find(std::string(name));
    return found != symbols.end() ? std::optional(found->second) : std::nullopt;
  }
  std::optional<std::int64_t> Number(std::int64_t number) const { return number; }
  std::optional<std::int64_t> Calculate(char sign, std::int64_t a, std::int64_t b) const {
    return internal::CalculateSize(sign, a, b);
  }
};

}  // namespace

std::string SizesText(std::span<const std::int64_t> shape) {
  return ShapeText(std::vector<OpTester::Dimension>(shape.begin(), shape.end()));
}

std::size_t ElementSize(std::int32_t element_type) {
  std::size_t size = 0;
  const auto measure = [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, std::string>) size = sizeof(T);
  };
  VisitType(element_type, measure, ElementTypes());
  return size;
}

std::string ElementTypeText(std::int32_t element_type) {
  static constexpr const char* kNames[] = {"no type", "float",   "uint8_t",  "int8_t",  "uint16_t",
                                           "int16_t", "int32_t", "int64_t",  "string",  "bool",
                                           "Float16", "double",  "uint32_t", "uint64_t"};
  if (element_type >= 0 && element_type <= 13) return kNames[element_type];
  return element_type == kElementType<BFloat16>
             ? "BFloat16"
             : "ONNX's type number " + std::to_string(element_type);
}

std::string ShapeText(const OpTester::Shape& shape) {
  if (!shape) return "of unknown rank";
  std::string text;
  for (const OpTester::Dimension& one : *shape) {
    text += text.empty() ? "" : ", ";
    text += one.size >= 0 ? std::to_string(one.size) : one.symbol.empty() ? "?" : one.symbol;
  }
  return "[" + text + "]";
}

OpTester::Tolerance DefaultTolerance(std::int32_t element_type) {
  const internal::ElementType* const type = internal::FindElementType(element_type);
  if (type == nullptr) return {};
  return {type->tolerance, type->tolerance};
}

std::string Compare(const TensorValue& expected, const TensorValue& got,
                    const OpTester::Tolerance& tolerance) {
  if (expected.element_type() != got.element_type()) {
    return ": expected " + ElementTypeText(expected.element_type()) + ", got " +
           ElementTypeText(got.element_type());
  }
  if (!std::equal(expected.shape().begin(), expected.shape().end(), got.shape().begin(),
                  got.shape().end())) {
    return ": expected the shape " + SizesText(expected.shape()) + ", got " +
           SizesText(got.shape());
  }
  std::string text = ": OpTester does not support its type";
  const auto compare = [&]<class T>(T*) {
    text = CompareElements<T>(Elements<T>(expected), Elements<T>(got), tolerance);
  };
  VisitType(expected.element_type(), compare, ElementTypes());
  return text;
}

std::optional<std::int64_t> Evaluate(const std::string& expression, const Symbols& symbols) {
  return internal::EvaluateSize<std::int64_t>(expression, Arithmetic{symbols});
}

bool Contains(const OpTester::Shape& inferred, const std::vector<std::int64_t>& shape,
              const Symbols& symbols) {
  if (!inferred) return true;
  if (inferred->size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const OpTester::Dimension& one = (*inferred)[i];
    const std::optional<std::int64_t> size =
        one.size >= 0 ? one.size : Evaluate(one.symbol, symbols);
    if (size && *size != shape[i]) return false;
  }
  return true;
}

}  // namespace opgraft::op_test
