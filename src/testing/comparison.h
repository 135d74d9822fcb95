// What came against what was expected: elements within tolerances, shapes within what was said.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// The bytes of one element; 0 for strings and for types that tests do not know.
std::size_t ElementSize(std::int32_t element_type);

/// "float", as in C++.
std::string ElementTypeText(std::int32_t element_type);

/// "[2, n, ?]", or "of unknown rank".
std::string ShapeText(const OpTester::Shape& shape);

OpTester::Tolerance DefaultTolerance(std::int32_t element_type);

/// The elements of a tensor that is known to be of type T. (`As`, which refuses others, is a part
/// of packs, and tests need none.)
template <class T>
Tensor<const T> Elements(const TensorValue& tensor) {
  return {static_cast<const T*>(tensor.View().data()), tensor.shape()};
}

/// Empty where `got` is what was expected; else where they differ first, and how.
std::string Compare(const TensorValue& expected, const TensorValue& got,
                    const OpTester::Tolerance& tolerance);

/// The sizes that symbols stand for.
using Symbols = std::map<std::string, std::int64_t>;

/// The size that a symbol, or an expression of symbols and numbers such as "2*n", stands for;
/// nullopt where it has a symbol that is not there, or makes no sense.
std::optional<std::int64_t> Evaluate(const std::string& expression, const Symbols& symbols);

/// Whether `inferred` leaves room for the shape that came: sizes and symbols that it tells are
/// right, and what it does not tell may be anything.
bool Contains(const OpTester::Shape& inferred, const std::vector<std::int64_t>& shape,
              const Symbols& symbols);

}  // namespace opgraft::op_test
#pragma GCC visibility pop
