// Checks that operators of ATen leave out, though they would read or write beyond their tensors.
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

}  // namespace opgraft::aten
