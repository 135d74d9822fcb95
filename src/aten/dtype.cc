// The table of types.
#include "aten/dtype.h"

#include <iterator>

namespace opgraft::aten {
namespace {

constexpr Dtype kTable[] = {
    {"float32", 1, false, 4},
    {"uint8", 2, false, 1},
    {"int8", 3, false, 1},
    {"uint16", 4, false, 2},
    {"int16", 5, false, 2},
    {"int32", 6, false, 4},
    {"int64", 7, false, 8},
    {"bool", 9, false, 1},
    {"float16", 10, false, 2},
    {"float64", 11, false, 8},
    {"uint32", 12, false, 4},
    {"uint64", 13, false, 8},
    {"bfloat16", 16, false, 2},
    {"float8_e4m3fn", 17, false, 1},
    {"float8_e4m3fnuz", 18, false, 1},
    {"float8_e5m2", 19, false, 1},
    {"float8_e5m2fnuz", 20, false, 1},
    {"complex32", 10, true, 4},
    {"complex64", 1, true, 8},
    {"complex128", 11, true, 16},
};
static_assert(std::size(kTable) == kDtypes);

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

const Dtype& DtypeAt(int index) { return kTable[index]; }

}  // namespace opgraft::aten
