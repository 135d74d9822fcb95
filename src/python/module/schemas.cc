// Exposes the core's own objects, read-only, instead of copying them into Python structures.
#include "python/module/schemas.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/element_type.h"
#include "core/schema.h"
#include "model/onnx_tags.h"
#include "opgraft/size_expression.h"
#include "python/call/arrays.h"
#include "python/call/failure.h"
#include "python/call/native_arguments.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

namespace tag = model::tag;

void DefineElementTypes(nb::module_& module) {
  nb::class_<ElementType>(module, "ElementType")
      .def_ro("number", &ElementType::number)
      .def_ro("name", &ElementType::name)
      .def_ro("onnx_name", &ElementType::onnx_name)
      .def_ro("bits", &ElementType::bits)
      .def_ro("parts", &ElementType::parts)
      .def_ro("torch_number", &ElementType::torch_number)
      .def_ro("tolerance", &ElementType::tolerance)
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

/// A pack's texts may hold any bytes.
nb::object Text(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

template <class Class, class Owner>
void DefineText(nb::class_<Class>& defined, const char* name, std::string Owner::* member) {
  defined.def_prop_ro(name, [member](const Class& one) { return Text(one.*member); });
}

nb::object ToPython(const DefaultTensor& tensor) {
  PyObject* made = nullptr;
  if (tensor.element_type == kString) {
    const std::vector<std::string_view> views(tensor.texts.begin(), tensor.texts.end());
    made = MakeStrings(tensor.shape, views);
  } else if (FindArrays(tensor.element_type).ok()) {
    made = MakeCopy(
        {const_cast<std::byte*>(tensor.elements.data()), tensor.element_type, tensor.shape});
  }
  if (made == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return made != nullptr ? nb::steal(made) : nb::none();
}

nb::object ToPython(std::monostate) { return nb::none(); }
nb::object ToPython(double value) { return nb::float_(value); }
nb::object ToPython(std::int64_t value) { return nb::int_(value); }
nb::object ToPython(const std::string& value) { return nb::bytes(value.data(), value.size()); }
template <class T>
nb::object ToPython(const std::vector<T>& values) {
  nb::list list;
  for (const T& value : values) list.append(ToPython(value));
  return list;
}

template <class T>
std::vector<T> ToVector(const nb::object& values) {
  std::vector<T> converted;
  for (const nb::handle value : values) converted.push_back(nb::cast<T>(value));
  return converted;
}

std::string ToBytes(const nb::handle& text) {
  if (!nb::isinstance<nb::bytes>(text)) return nb::cast<std::string>(text);
  const auto bytes = nb::cast<nb::bytes>(text);
  return {bytes.c_str(), bytes.size()};
}

/// Converts a default; opgraft._declare._signature has checked that it is of this kind.
DefaultValue ToDefault(std::int64_t kind, const nb::object& value) {
  if (value.is_none()) return {};
  switch (kind) {
    case tag::kFloat: return nb::cast<double>(value);
    case tag::kInt: return nb::cast<std::int64_t>(value);
    case tag::kString: return ToBytes(value);
    case tag::kFloats: return ToVector<double>(value);
    case tag::kInts: return ToVector<std::int64_t>(value);
    case tag::kStrings: {
      std::vector<std::string> texts;
      for (const nb::handle text : value) texts.push_back(ToBytes(text));
      return texts;
    }
    default: break;
  }
  ArrayTensor array;
  if (Status status = array.Take(value, "a default"); !status.ok()) Raise(status);
  return DefaultTensor::CopyOf(array.tensor());
}

void DefineOperators(nb::module_& module) {
  nb::class_<Parameter> parameter(module, "Parameter");
  parameter
      .def(
          "__init__",
          [](Parameter* self, std::string name, int occurrence, std::size_t type) {
            new (self) Parameter{std::move(name), static_cast<Occurrence>(occurrence), type};
          },
          nb::arg("name"), nb::arg("occurrence"), nb::arg("type"))
      .def_prop_ro("occurrence",
                   [](const Parameter& one) { return static_cast<int>(one.occurrence); })
      .def_ro("type", &Parameter::type)
      .def_ro("minimum", &Parameter::minimum);
  DefineText(parameter, "name", &Parameter::name);
  DefineText(parameter, "description", &Parameter::description);

  nb::class_<TypeVariable> type(module, "TypeVariable");
  type.def(
          "__init__",
          [](TypeVariable* self, std::string name, std::vector<std::int64_t> allowed,
             bool is_tied) {
            new (self) TypeVariable{std::move(allowed), is_tied, std::move(name)};
          },
          nb::arg("name"), nb::arg("allowed"), nb::arg("is_tied"))
      .def_ro("allowed", &TypeVariable::allowed)
      .def_ro("is_tied", &TypeVariable::is_tied);
  DefineText(type, "name", &TypeVariable::name);
  DefineText(type, "description", &TypeVariable::description);

  nb::class_<AttributeParameter> attribute(module, "AttributeParameter");
  attribute
      .def(
          "__init__",
          [](AttributeParameter* self, std::string name, std::int64_t kind, bool is_required,
             const nb::object& fallback, bool is_bool) {
            new (self) AttributeParameter{std::move(name), kind, is_required,
                                          ToDefault(kind, fallback), is_bool};
          },
          nb::arg("name"), nb::arg("kind"), nb::arg("is_required"), nb::arg("default").none(),
          nb::arg("is_bool"))
      .def_ro("kind", &AttributeParameter::type)
      .def_ro("is_required", &AttributeParameter::is_required)
      .def_ro("is_bool", &AttributeParameter::is_bool)
      .def_prop_ro("default", [](const AttributeParameter& one) {
        return std::visit([](const auto& value) { return ToPython(value); }, one.fallback);
      });
  DefineText(attribute, "name", &AttributeParameter::name);
  DefineText(attribute, "description", &AttributeParameter::description);

  nb::class_<KernelChoice> kernel(module, "KernelChoice");
  kernel.def_ro("types", &KernelChoice::types);
  DefineText(kernel, "device", &KernelChoice::device);

  nb::class_<TypeOrigin>(module, "TypeOrigin")
      .def_ro("fixed", &TypeOrigin::fixed)
      .def_ro("input", &TypeOrigin::input);
}

void DefineSchema(nb::module_& module) {
  nb::class_<Schema> schema(module, "Schema");
  schema
      .def(
          "__init__",
          [](Schema* self, std::string domain, std::string name, std::string source,
             std::string documentation, std::string torch_name, std::vector<Parameter> inputs,
             std::vector<Parameter> outputs, std::vector<TypeVariable> types,
             std::vector<AttributeParameter> attributes, bool has_shape_rule, bool on_gpu,
             bool is_isolated) {
            new (self) Schema{.domain = std::move(domain),
                              .name = std::move(name),
                              .module = std::move(source),
                              .documentation = std::move(documentation),
                              .torch_name = std::move(torch_name),
                              .inputs = std::move(inputs),
                              .outputs = std::move(outputs),
                              .types = std::move(types),
                              .attributes = std::move(attributes),
                              .has_shape_rule = has_shape_rule,
                              .on_gpu = on_gpu,
                              .is_isolated = is_isolated,
                              .native = nullptr};
          },
          nb::kw_only(), nb::arg("domain"), nb::arg("name"), nb::arg("module"),
          nb::arg("documentation"), nb::arg("torch_name"), nb::arg("inputs"), nb::arg("outputs"),
          nb::arg("types"), nb::arg("attributes"), nb::arg("has_shape_rule"), nb::arg("on_gpu"),
          nb::arg("is_isolated") = false)
      .def_prop_ro("full_name", [](const Schema& one) { return Text(one.FullName()); })
      .def_ro("since_version", &Schema::since_version)
      .def_ro("inputs", &Schema::inputs)
      .def_ro("outputs", &Schema::outputs)
      .def_ro("types", &Schema::types)
      .def_ro("attributes", &Schema::attributes)
      .def_ro("has_shape_rule", &Schema::has_shape_rule)
      .def_ro("on_gpu", &Schema::on_gpu)
      .def_ro("is_isolated", &Schema::is_isolated)
      .def_prop_ro("is_native", [](const Schema& one) { return one.native != nullptr; })
      .def_prop_ro("runtime_name",
                   [](const Schema& one) {
                     return Text(one.native ? one.native->RuntimeFullName() : one.FullName());
                   })
      .def_prop_ro("kernels",
                   [](const Schema& one) {
                     return one.native ? one.native->kernels : std::vector<KernelChoice>();
                   })
      .def_prop_ro("pack",
                   [](const Schema& one) {
                     const std::string pack = one.native ? one.native->pack : "";
                     return nb::steal(PyUnicode_DecodeFSDefault(pack.c_str()));
                   })
      .def(
          "output_type",
          [](const Schema& one, std::size_t index, const std::vector<std::int64_t>& input_types) {
            return one.OutputType(index, input_types);
          },
          nb::arg("index"), nb::arg("input_types"))
      .def(
          "output_type_origin",
          [](const Schema& one, std::size_t index, const std::vector<bool>& are_there) {
            return FindTypeOrigin(one, index, are_there.size(),
                                  [&](std::size_t input) { return are_there[input]; });
          },
          nb::arg("index"), nb::arg("are_there"));
  DefineText(schema, "domain", &Schema::domain);
  DefineText(schema, "name", &Schema::name);
  DefineText(schema, "module", &Schema::module);
  DefineText(schema, "documentation", &Schema::documentation);
  DefineText(schema, "torch_name", &Schema::torch_name);
}

using internal::SizeExpression;

/// Computes sizes with Python's operators, so that they work on its integers and on torch's
/// symbols.
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
      "The value of a text such as \"2*n + 1\"; None if it is invalid or has a name that is not "
      "among the sizes");
}

}  // namespace

void DefineSchemas(nb::module_& module) {
  DefineElementTypes(module);
  DefineOperators(module);
  DefineSchema(module);
  DefineSizes(module);
}

}  // namespace opgraft::pyop
