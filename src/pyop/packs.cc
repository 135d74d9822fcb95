// Packs for Python: loaded, read, and their operators called.
#include "pyop/packs.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>

#include "core/packs.h"
#include "pyop/declarations.h"
#include "pyop/failure.h"
#include "pyop/native_calls.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

void Load(const nb::bytes& path) {
  const Status status = Packs::OfThisProcess().Load(
      std::string(path.c_str(), path.size()), [](std::string_view full_name) -> std::string {
        const std::shared_ptr<const Schema> declared = FindDeclared(full_name);
        return declared != nullptr ? "the Python module '" + declared->module + "'" : "";
      });
  if (!status.ok()) Raise(status);
}

Packs::Schemas Operators() { return Packs::OfThisProcess().operators(); }

/// Of a library that this process need not know; none where it is no pack.
Packs::Schemas Read(const nb::bytes& path) {
  Packs packs;
  const Status status = packs.Load(std::string(path.c_str(), path.size()),
                                   [](std::string_view) { return std::string(); });
  return status.ok() ? packs.operators() : Packs::Schemas();
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
