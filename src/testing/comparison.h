// Compares results with expectations: elements within tolerances, shapes with what was inferred.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// Returns the bytes of one element; 0 for strings and for types that OpTester does not know.
std::size_t ElementSize(std::int32_t element_type);

/// Returns the name in C++, such as "float".
std::string ElementTypeText(std::int32_t element_type);

/// Returns "[2, n, ?]", or "of unknown rank".
std::string ShapeText(const OpTester::Shape& shape);
std::string SizesText(std::span<const std::int64_t> sizes);

OpTester::Tolerance DefaultTolerance(std::int32_t element_type);

/// Returns the elements of a tensor that is known to be of type T. (`As`, which checks the type, is
/// a part of packs, which tests do not need.)
template <class T>
Tensor<const T> Elements(const TensorValue& tensor) {
  return {static_cast<const T*>(tensor.View().data()), tensor.shape()};
}

/// Returns "" if `got` is as expected, else where they differ first, and how.
std::string Compare(const TensorValue& expected, const TensorValue& got,
                    const OpTester::Tolerance& tolerance);

/// The sizes that symbols stand for.
using Symbols = std::map<std::string, std::int64_t>;

/// Returns the size that a symbol, or an expression of symbols and numbers such as "2*n", stands
/// for; nullopt if it has an unknown symbol or is malformed.
std::optional<std::int64_t> Evaluate(const std::string& expression, const Symbols& symbols);

/// Returns whether `inferred` is compatible with the actual shape: the sizes and symbols that it
/// gives must be right, unknown ones may be anything.
bool Contains(const OpTester::Shape& inferred, const std::vector<std::int64_t>& shape,
              const Symbols& symbols);

}  // namespace opgraft::op_test
#pragma GCC visibility pop
