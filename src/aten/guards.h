// Checks that ATen's operators do not make themselves, so that bad arguments would read or write
// beyond their tensors, or run without end.
#pragma once

#include <string>
#include <string_view>

#include "aten/named_arguments.h"

namespace opgraft::aten {

/// Returns "", or what is wrong: "expected ..., got ...".
using Guard = std::string (*)(const NamedArguments& arguments);

/// Returns the check for an operator, nullptr if it needs none.
Guard FindGuard(std::string_view operator_name);

/// Whether an argument is a size that operators calculate with unchecked: it must fit into 31 bits.
bool IsSize(std::string_view parameter);

/// The most dimensions that torch's kernels take. Some operators loop over all pairs of dimensions,
/// so that more would take too long.
inline constexpr std::size_t kMostDimensions = 64;

/// Whether a list of integers may be longer than kMostDimensions.
bool IsLong(std::string_view parameter);

/// Returns what is wrong with the shape of an input, whatever the operator is; "" if nothing is.
std::string CheckShape(const InputTensor& input);

}  // namespace opgraft::aten
