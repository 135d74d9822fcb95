// The Python module opgraft._pyop: the bridge for libopgraft, and prepare() for the package.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "core/text.h"
#include "model/prepare.h"
#include "pyop/arrays.h"
#include "pyop/bridge.h"
#include "pyop/exit_gate.h"
#include "pyop/python_operator.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

constexpr Bridge kBridge = {kBridgeVersion, &PythonOperator::Create};

[[noreturn]] void Raise(const Status& status) {
  const nb::object type = nb::module_::import_("opgraft._errors").attr(Name(status.kind()).data());
  PyErr_SetString(type.ptr(), Readable(status.message()).c_str());
  throw nb::python_error();
}

nb::tuple Prepare(const nb::bytes& model, const std::string& origin, const std::string& runtime) {
  model::PreparedModel prepared;
  Status status;
  WithoutGil([&] {
    status = model::Prepare({model.c_str(), model.size()}, origin, runtime, &prepared);
  });
  if (!status.ok()) Raise(status);
  nb::list operators;
  for (const Spec& spec : prepared.python_operators) {
    operators.append(
        nb::make_tuple(Readable(spec.node), Readable(spec.module), Readable(spec.class_name)));
  }
  const nb::object bytes = prepared.bytes.empty()
                               ? nb::object(model)
                               : nb::bytes(prepared.bytes.data(), prepared.bytes.size());
  return nb::make_tuple(bytes, prepared.has_external_data, prepared.needs_file, operators);
}

nb::object FindError(const std::string& text) {
  long long exception = 0;
  const Status status = Status::FindIn(text, &exception);
  if (status.ok()) return nb::none();
  return nb::make_tuple(std::string(Name(status.kind())), status.message(), exception);
}

}  // namespace
}  // namespace opgraft::pyop

NB_MODULE(_pyop, module) {
  using namespace opgraft::pyop;
  nb::set_leak_warnings(false);  // sessions that live until the end of the process hold operators
  ImportNumPy();
  module.attr(kBridgeAttribute) = nb::capsule(&kBridge, kBridgeCapsule);
  module.def("prepare", &Prepare, nb::arg("model"), nb::arg("origin"), nb::arg("runtime"),
             "(bytes, has external data, needs a file, [(node, module, class name)])");
  module.def("enter_run", &EnterRun, "A run of a session begins; at exit, no more");
  module.def("leave_run", &LeaveRun, "A run of a session ends");
  module.def("close_gate", &CloseGate, "Holds back the threads that would run on at exit");
  module.def("reset_gate", &ResetGate, "In a forked child, where the other threads are no more");
  module.def(
      "find_error", &FindError, nb::arg("text"),
      "(error class, message, number of the exception or 0) in a text from ONNX Runtime, or None");
}
