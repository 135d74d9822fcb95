// Reads the arguments with the reader of ATen nodes, so that there is only one grammar.
#include "python/module/aten_arguments.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "aten/encoding.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// An argument, or an item of one, that has no plain Python value. The caller decides what it
/// stands for.
struct AtenWord {
  std::string kind;  ///< "torch", "device", or how the input number `place` is read
  std::string text;
  std::int64_t place = 0;
};

nb::object AtenToPython(const aten::Written& written) {
  using aten::Form;
  const auto word = [&](const char* kind) {
    return nb::cast(AtenWord{kind, written.text, written.integer});
  };
  switch (written.form) {
    case Form::kNull: return nb::none();
    case Form::kBool: return nb::bool_(written.integer != 0);
    case Form::kInt: return nb::int_(written.integer);
    case Form::kFloat: return nb::float_(written.real);
    case Form::kComplex: return nb::steal(PyComplex_FromDoubles(written.real, written.imaginary));
    case Form::kText: return nb::str(written.text.data(), written.text.size());
    case Form::kName: return word("torch");
    case Form::kDevice: return word("device");
    case Form::kTensor: return word("tensor");
    case Form::kComplexTensor: return word("complex");
    case Form::kNumberOf: return word("number");
    case Form::kNumbersOf: return word("numbers");
    case Form::kList: break;
  }
  nb::list list;
  for (const aten::Written& item : written.items) list.append(AtenToPython(item));
  return list;
}

/// Returns a list of (name, value); the name of a positional argument is "".
nb::list ReadAtenArguments(const std::string& text, const std::string& who) {
  std::vector<aten::WrittenArgument> arguments;
  const Status status = aten::ReadArguments(text, who, &arguments);
  if (!status.ok()) Raise(status);
  nb::list list;
  for (const aten::WrittenArgument& argument : arguments) {
    list.append(nb::make_tuple(argument.name, AtenToPython(argument.value)));
  }
  return list;
}

}  // namespace

void DefineAtenArguments(nb::module_& module) {
  nb::class_<AtenWord>(module, "AtenWord")
      .def_ro("kind", &AtenWord::kind)
      .def_ro("text", &AtenWord::text)
      .def_ro("place", &AtenWord::place);
  module.def("read_aten_arguments", &ReadAtenArguments, nb::arg("text"), nb::arg("who"));
}

}  // namespace opgraft::pyop
