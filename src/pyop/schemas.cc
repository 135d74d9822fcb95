// The core's own objects, to be read: nothing is copied into shapes of Python's.
#include "pyop/schemas.h"

#include <nanobind/stl/string_view.h>

#include "core/element_type.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

void DefineElementTypes(nb::module_& module) {
  nb::class_<ElementType>(module, "ElementType")
      .def_ro("number", &ElementType::number)
      .def_ro("name", &ElementType::name)
      .def_ro("onnx_name", &ElementType::onnx_name)
      .def_ro("bits", &ElementType::bits)
      .def_ro("parts", &ElementType::parts)
      .def_ro("torch_number", &ElementType::torch_number)
      .def_ro("is_carried", &ElementType::is_carried)
      .def_prop_ro("is_packed", &ElementType::IsPacked)
      .def_prop_ro("is_numpys", [](const ElementType& type) { return type.numpy_kind != 0; })
      .def_prop_ro("has_dlpack", [](const ElementType& type) {
        return type.dlpack != internal::DlpackCode::kNone;
      });
  nb::list types;
  for (const ElementType& type : kElementTypes) {
    types.append(nb::cast(&type, nb::rv_policy::reference));
  }
  module.attr("ELEMENT_TYPES") = nb::tuple(types);
}

}  // namespace

void DefineSchemas(nb::module_& module) { DefineElementTypes(module); }

}  // namespace opgraft::pyop
