// The core's own objects, to be read: nothing is copied into shapes of Python's.
#include "pyop/schemas.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "core/element_type.h"
#include "opgraft/size_expression.h"

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
      .def_prop_ro(
          "has_dlpack",
          [](const ElementType& type) { return type.dlpack != internal::DlpackCode::kNone; })
      .def_prop_ro("dlpack_code",
                   [](const ElementType& type) { return static_cast<int>(type.dlpack); });
  nb::list types;
  for (const ElementType& type : kElementTypes) {
    types.append(nb::cast(&type, nb::rv_policy::reference));
  }
  module.attr("ELEMENT_TYPES") = nb::tuple(types);
}

using internal::SizeExpression;

/// What sizes are computed with that Python has: of its integers, and of torch's symbols.
struct Arithmetic {
  const nb::dict& sizes;

  std::optional<nb::object> Find(std::string_view name) const {
    const nb::str key(name.data(), name.size());
    PyObject* const found = PyDict_GetItemWithError(sizes.ptr(), key.ptr());
    if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return found != nullptr ? std::optional(nb::borrow(found)) : std::nullopt;
  }
  std::optional<nb::object> Number(std::int64_t number) const { return nb::int_(number); }
  std::optional<nb::object> Calculate(char sign, const nb::object& a, const nb::object& b) const {
    const auto operation = sign == '+'   ? &PyNumber_Add
                           : sign == '-' ? &PyNumber_Subtract
                           : sign == '*' ? &PyNumber_Multiply
                           : sign == '/' ? &PyNumber_FloorDivide
                                         : &PyNumber_Remainder;
    nb::object result = nb::steal(operation(a.ptr(), b.ptr()));
    if (result.is_valid()) return result;
    if (PyErr_ExceptionMatches(PyExc_ArithmeticError) == 0) throw nb::python_error();
    PyErr_Clear();  // a division by zero
    return std::nullopt;
  }
};

void DefineSizes(nb::module_& module) {
  nb::class_<SizeExpression>(module, "SizeExpression")
      .def(nb::init<std::int64_t>(), nb::arg("number"))
      .def_static("named", &SizeExpression::Named, nb::arg("name"))
      .def_prop_ro("text", &SizeExpression::Text)
      .def_prop_ro("number", &SizeExpression::number)
      .def_prop_ro("names", &SizeExpression::Names)
      .def_prop_ro("is_name", &SizeExpression::IsName)
      .def("add", [](const SizeExpression& a, const SizeExpression& b) { return a + b; })
      .def("subtract", [](const SizeExpression& a, const SizeExpression& b) { return a - b; })
      .def("multiply", [](const SizeExpression& a, const SizeExpression& b) { return a * b; })
      .def("divide", [](const SizeExpression& a, const SizeExpression& b) { return a / b; })
      .def("remainder", [](const SizeExpression& a, const SizeExpression& b) { return a % b; })
      .def("evaluate", [](const SizeExpression& expression, const nb::dict& sizes) {
        return expression.Evaluate<nb::object>(Arithmetic{sizes});
      });
  module.def(
      "evaluate_size",
      [](std::string_view text, const nb::dict& sizes) {
        return internal::EvaluateSize<nb::object>(text, Arithmetic{sizes});
      },
      nb::arg("text"), nb::arg("sizes"),
      "The value of a text such as \"2*n + 1\"; None where it has a name that is not among the "
      "sizes, or makes no sense");
}

}  // namespace

void DefineSchemas(nb::module_& module) {
  DefineElementTypes(module);
  DefineSizes(module);
}

}  // namespace opgraft::pyop
