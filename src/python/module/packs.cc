// Loads and reads packs, and calls their operators, for Python.
#include "python/module/packs.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>

#include "core/packs.h"
#include "python/call/declarations.h"
#include "python/call/failure.h"
#include "python/module/native_calls.h"

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

/// Returns the operators of a library without registering it; none if it is not a pack.
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
  module.def("pack_operators", &Operators, "The operators that the loaded packs declare");
  module.def("read_pack", &Read, nb::arg("path"),
             "The operators that a pack declares, without loading it");
  module.def("run_native", &RunOperator, nb::arg("full_name"), nb::arg("version"),
             nb::arg("inputs"), nb::arg("attributes"), nb::arg("outputs"));
  module.def("infer_native", &InferOperator, nb::arg("full_name"), nb::arg("version"),
             nb::arg("inputs"), nb::arg("attributes"), nb::arg("outputs"));
}

}  // namespace opgraft::pyop
