// A known size is an int, a symbol a str, and an unknown size None.
#include "python/call/shapes.h"

#include <vector>

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Returns a dimension in the form that opgraft._declare._shapes takes: int, str or None.
nb::object ToPython(const Dimension& dimension) {
  if (dimension.size >= 0) return nb::int_(dimension.size);
  if (dimension.symbol.empty()) return nb::none();
  return nb::str(dimension.symbol.c_str(), dimension.symbol.size());
}

}  // namespace

nb::object ToPython(const SymbolicShape& shape) {
  if (!shape) return nb::borrow(Py_Ellipsis);
  nb::list dimensions;
  for (const Dimension& dimension : *shape) dimensions.append(ToPython(dimension));
  return nb::tuple(dimensions);
}

SymbolicShape ToShape(const nb::handle& shape) {
  if (shape.is_none()) return std::nullopt;
  std::vector<Dimension> dimensions;
  for (const nb::handle dimension : shape) {
    Dimension& read = dimensions.emplace_back();
    if (nb::isinstance<nb::int_>(dimension)) read.size = nb::cast<std::int64_t>(dimension);
    if (nb::isinstance<nb::str>(dimension)) read.symbol = nb::cast<nb::str>(dimension).c_str();
  }
  return dimensions;
}

}  // namespace opgraft::pyop
