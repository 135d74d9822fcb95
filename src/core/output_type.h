// The rule by which an output gets its element type: one for the core and for what packs hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace opgraft {

/// Where the type of an output comes from. Neither is set where nobody can tell.
struct TypeOrigin {
  std::int64_t fixed = 0;            ///< the only one that is allowed
  std::optional<std::size_t> input;  ///< else the first input that is there and has the same type
};

/// Of output `index` of a node that has `input_count` inputs, of which `is_there(i)` tells those
/// that count. An operator is a schema or the definition of a pack's.
template <class Operator, class IsThere>
TypeOrigin FindTypeOrigin(const Operator& declared, std::size_t index, std::size_t input_count,
                          const IsThere& is_there) {
  const auto type_of = [](const auto& parameters, std::size_t place) {
    return parameters[std::min(place, parameters.size() - 1)].type;
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
