// The operators of ATen that nodes may name: those that write to nothing, with their schemas.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aten/schema.h"

namespace opgraft::aten {

struct Operator {
  Schema schema;
  bool is_listed = false;         ///< runs without an allowance
  bool is_uninitialized = false;  ///< leaves memory as it was, which must not be seen
};

/// The overloads of an operator of ATen, by its name without a namespace; none for one that is not
/// known, or writes to its arguments, or takes what no node can say.
std::vector<Operator> FindOperators(std::string_view name);

/// Whether "aten::name" or "aten::name.overload" runs without an allowance; nullopt where it cannot
/// run at all.
std::optional<bool> IsListed(std::string_view full_name);

/// Of "aten::name" or "name" the name alone; "" for one of another namespace.
std::string_view WithoutNamespace(std::string_view name);

/// The whole list, each schema in a line behind its mark; for tests.
std::string_view AllOperators();

}  // namespace opgraft::aten
