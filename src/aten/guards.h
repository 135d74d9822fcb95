// Checks that operators of ATen leave out, though they would read or write beyond their tensors, or
// never end.
#pragma once

#include <string>
#include <string_view>

#include "aten/named_arguments.h"

namespace opgraft::aten {

/// Nothing, or what is wrong: "expected ..., came ...".
using Guard = std::string (*)(const NamedArguments& arguments);

/// The check for an operator, nullptr where it needs none.
Guard FindGuard(std::string_view operator_name);

/// Whether an argument is a size that operators reckon with unchecked: it must fit into 31 bits.
bool IsSize(std::string_view parameter);

/// The dimensions that torch's kernels take; of more, some operators go through all pairs.
inline constexpr std::size_t kMostDimensions = 64;

/// Whether a list of integers may have more than kMostDimensions.
bool IsLong(std::string_view parameter);

/// What is wrong with the shape of an input, whatever the operator is; or nothing.
std::string CheckShape(const InputTensor& input);

}  // namespace opgraft::aten
