// The rule that gives an output its element type, shared by the core and the code in packs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace opgraft {

/// Where the element type of an output comes from. Neither member is set if that is not known.
struct TypeOrigin {
  std::int64_t fixed = 0;            ///< the only type that is allowed
  std::optional<std::size_t> input;  ///< else the first input present with the same type variable
};

/// Returns the origin for output `index` of a node with `input_count` inputs. `is_there(i)` returns
/// whether input i is present. An operator is a Schema or an OperatorDefinition of a pack.
template <class Operator, class IsThere>
TypeOrigin FindTypeOrigin(const Operator& declared, std::size_t index, std::size_t input_count,
                          const IsThere& is_there) {
  const auto type_of = [](const auto& parameters, std::size_t position) {
    return parameters[std::min(position, parameters.size() - 1)].type;
  };
  const auto type = type_of(declared.outputs, index);
  const auto& allowed = declared.types[type].allowed;
  if (allowed.size() == 1) return {allowed.front(), std::nullopt};
  for (std::size_t i = 0; i < input_count && !declared.inputs.empty(); ++i) {
    if (type_of(declared.inputs, i) == type && is_there(i)) return {0, i};
  }
  return {};
}

}  // namespace opgraft
