// What packs declare, as plain Python values.
#include "pyop/packs.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/element_type.h"
#include "core/packs.h"
#include "model/onnx_tags.h"
#include "pyop/arrays.h"
#include "pyop/declarations.h"
#include "pyop/failure.h"
#include "pyop/native_calls.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

namespace tag = model::tag;

void Load(const nb::bytes& path) {
  const Status status = Packs::OfThisProcess().Load(
      std::string(path.c_str(), path.size()), [](std::string_view full_name) -> std::string {
        const std::shared_ptr<const Schema> declared = FindDeclared(full_name);
        return declared != nullptr ? "the Python module '" + declared->module + "'" : "";
      });
  if (!status.ok()) Raise(status);
}

nb::object Text(const char* text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
}

nb::list ToList(const OpgraftParameter* parameters, std::size_t count) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) {
    const OpgraftParameter& one = parameters[i];
    list.append(nb::make_tuple(Text(one.name), Text(one.description), one.occurrence, one.type,
                               one.minimum));
  }
  return list;
}

/// The default of an attribute as a Python value; None where there is none.
nb::object ToPython(const OpgraftAttribute& value) {
  nb::list list;
  switch (value.kind) {
    case tag::kFloat: return nb::float_(value.floats[0]);
    case tag::kInt: return nb::int_(value.integers[0]);
    case tag::kString: return nb::bytes(value.texts[0].data, value.texts[0].size);
    case tag::kFloats:
      for (std::size_t i = 0; i < value.count; ++i) list.append(value.floats[i]);
      return list;
    case tag::kInts:
      for (std::size_t i = 0; i < value.count; ++i) list.append(value.integers[i]);
      return list;
    case tag::kStrings:
      for (std::size_t i = 0; i < value.count; ++i) {
        list.append(nb::bytes(value.texts[i].data, value.texts[i].size));
      }
      return list;
    case tag::kTensor: {
      const OpgraftTensor& tensor = *value.tensors;
      const std::span<const std::int64_t> shape(tensor.shape, tensor.rank);
      PyObject* made = nullptr;
      if (tensor.element_type == kString) {
        std::size_t elements = 1;
        for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
        std::vector<std::string_view> views;
        const auto* const texts = static_cast<const OpgraftText*>(tensor.data);
        for (std::size_t i = 0; i < elements; ++i) views.emplace_back(texts[i].data, texts[i].size);
        made = MakeStrings(shape, views);
      } else if (FindArrays(tensor.element_type).ok()) {
        made = MakeCopy({tensor.data, tensor.element_type, shape});
      }
      if (made == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      return made != nullptr ? nb::steal(made) : nb::none();
    }
    default: return nb::none();
  }
}

nb::dict ToDictionary(const Schema& schema) {
  const OpgraftOperator& declaration = *schema.native->declaration;
  nb::list types;
  for (std::size_t i = 0; i < declaration.type_count; ++i) {
    const OpgraftType& type = declaration.types[i];
    nb::list allowed;
    for (std::size_t j = 0; j < type.allowed_count; ++j) allowed.append(type.allowed[j]);
    types.append(
        nb::make_tuple(Text(type.name), Text(type.description), allowed, type.is_tied != 0));
  }
  nb::list attributes;
  for (std::size_t i = 0; i < declaration.attribute_count; ++i) {
    const OpgraftAttributeParameter& one = declaration.attributes[i];
    attributes.append(nb::make_tuple(Text(one.name), Text(one.description), one.kind,
                                     one.is_required != 0, ToPython(one.fallback)));
  }
  nb::list kernels;
  for (std::size_t i = 0; i < declaration.kernel_count; ++i) {
    const OpgraftKernel& kernel = *declaration.kernels[i];
    nb::list numbers;
    for (std::size_t j = 0; j < declaration.type_count; ++j) numbers.append(kernel.types[j]);
    kernels.append(nb::make_tuple(Text(kernel.device), numbers));
  }
  nb::dict result;
  result["domain"] = Text(schema.domain.c_str());
  result["name"] = Text(declaration.name);
  result["documentation"] = Text(declaration.documentation);
  result["torch_name"] = Text(declaration.torch_name);
  result["since_version"] = declaration.since_version;
  result["inputs"] = ToList(declaration.inputs, declaration.input_count);
  result["outputs"] = ToList(declaration.outputs, declaration.output_count);
  result["types"] = types;
  result["attributes"] = attributes;
  result["runtime_name"] = Text(schema.native->RuntimeFullName().c_str());
  result["has_shape_rule"] = schema.has_shape_rule;
  result["kernels"] = kernels;
  result["pack"] = nb::steal(PyUnicode_DecodeFSDefault(schema.native->pack.c_str()));
  return result;
}

nb::list ToList(const Packs& packs) {
  nb::list operators;
  for (const std::shared_ptr<const Schema>& schema : packs.operators()) {
    operators.append(ToDictionary(*schema));
  }
  return operators;
}

nb::list Operators() { return ToList(Packs::OfThisProcess()); }

/// Of a library that this process need not know; none where it is no pack.
nb::list Read(const nb::bytes& path) {
  Packs packs;
  const Status status = packs.Load(std::string(path.c_str(), path.size()),
                                   [](std::string_view) { return std::string(); });
  return status.ok() ? ToList(packs) : nb::list();
}

}  // namespace

void DefinePacks(nb::module_& module) {
  module.def("load_pack", &Load, nb::arg("path"));
  module.def("has_packs", [] { return !Packs::OfThisProcess().operators().empty(); });
  module.def("pack_operators", &Operators, "What the packs that are loaded declare");
  module.def("read_pack", &Read, nb::arg("path"), "What a pack declares, without loading it");
  module.def("run_native", &RunOperator, nb::arg("full_name"), nb::arg("version"),
             nb::arg("inputs"), nb::arg("attributes"), nb::arg("outputs"));
  module.def("infer_native", &InferOperator, nb::arg("full_name"), nb::arg("version"),
             nb::arg("inputs"), nb::arg("attributes"), nb::arg("outputs"));
}

}  // namespace opgraft::pyop
