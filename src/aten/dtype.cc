// Selects torch's types from the table of element types.
#include "aten/dtype.h"

#include <array>

#include "base/element_type.h"

namespace opgraft::aten {
namespace {

/// The types that torch has and a model can hold; complex numbers as pairs of a type that the
/// runtime carries.
constexpr std::array<Dtype, kDtypes> kTable = [] {
  std::array<Dtype, kDtypes> table;
  std::size_t filled = 0;
  for (const ElementType& type : kElementTypes) {
    const bool is_complex = type.parts != 0;
    if (type.torch_number < 0 || !(type.is_carried || is_complex)) continue;
    table.at(filled++) = {type.name, is_complex ? type.parts : type.number, is_complex,
                          static_cast<int>(type.size)};
  }
  if (filled != table.size()) throw "kDtypes is not their number";  // stops the compilation
  return table;
}();

}  // namespace

const Dtype* FindDtype(std::string_view name) {
  for (const Dtype& dtype : kTable) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

const Dtype* FindDtype(int element_type, bool is_complex) {
  for (const Dtype& dtype : kTable) {
    if (dtype.element_type == element_type && dtype.is_complex == is_complex) return &dtype;
  }
  return nullptr;
}

const Dtype& DtypeAt(int index) { return kTable[static_cast<std::size_t>(index)]; }

}  // namespace opgraft::aten
