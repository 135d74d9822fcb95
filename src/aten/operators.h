// The ATen operators that nodes may name, with their schemas: those that do not write to their
// arguments.
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
  bool is_uninitialized = false;  ///< its result is uninitialized memory, which must not be seen
};

/// Returns the overloads of an ATen operator, by its name without a namespace; empty if the
/// operator is not known, writes to its arguments, or takes arguments that a node cannot express.
std::vector<Operator> FindOperators(std::string_view name);

/// Returns whether "aten::name" or "aten::name.overload" runs without an allowance; nullopt if it
/// cannot run at all.
std::optional<bool> IsListed(std::string_view full_name);

/// Returns the "name" of "aten::name" or "name"; "" for another namespace.
std::string_view WithoutNamespace(std::string_view name);

/// Returns the whole list for tests: one schema in each line, after its mark.
std::string_view AllOperators();

}  // namespace opgraft::aten
