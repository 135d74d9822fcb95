// Shapes that may be partly unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opgraft {

/// A dimension of a shape: a size, a symbol such as "n" or "2*n", or, if neither is set, an unknown
/// size.
struct Dimension {
  std::int64_t size = -1;
  std::string symbol;
};

/// nullopt if the rank is not known.
using SymbolicShape = std::optional<std::vector<Dimension>>;

}  // namespace opgraft
