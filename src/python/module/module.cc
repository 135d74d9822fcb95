// The Python module opgraft._pyop: the bridge for libopgraft, and the core's functions for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "aten/libtorch.h"
#include "aten/operators.h"
#include "bridge/bridge.h"
#include "bridge/session_number.h"
#include "model/refusal.h"
#include "python/call/arrays.h"
#include "python/call/declarations.h"
#include "python/call/exit_gate.h"
#include "python/call/failure.h"
#include "python/eager/kernel.h"
#include "python/module/aten_arguments.h"
#include "python/module/bodies.h"
#include "python/module/embedding.h"
#include "python/module/packs.h"
#include "python/module/plans.h"
#include "python/module/python_operator.h"
#include "python/module/schemas.h"
#include "python/module/survey.h"
#include "python/module/torch_calls.h"
#include "python/module/workers.h"
#include "workers/pool.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

constexpr Bridge kBridge = {kBridgeVersion, &CreateOperator, &FindSchema,   &InferShapes,
                            &ImportModule,  &DescribePython, &CheckSignals, &KeepException};

/// Returns the kind and the message of the error for a text from the runtime, or None if there is
/// nothing to add to it.
nb::object FindRefusal(const std::string& text) {
  const Status status = ort::ToRefusal(Status::Error(text));
  if (status.message() == text) return nb::none();
  return nb::make_tuple(static_cast<int>(status.kind()), status.message());
}

/// Returns why ATen nodes cannot run here, or "". `installed` is the file of the package torch.
std::string LibtorchProblem(const std::string& installed) {
  const auto find = [&](std::string* path) {
    *path = installed;
    return installed.empty() ? Status::Unavailable("this Python has no package torch") : Status();
  };
  std::string path;
  aten::Libtorch loaded;
  Status status = aten::FindLibtorch(find, &path);
  if (status.ok()) status = aten::LoadLibtorch(path, &loaded);
  return status.message();
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
  PrepareForForks();
  module.attr(kBridgeAttribute) = nb::capsule(&kBridge, kBridgeCapsule);
  DefinePlans(module);
  module.def(
      "aten_is_listed",
      [](const std::string& full_name) { return opgraft::aten::IsListed(full_name); },
      nb::arg("full_name"),
      "Whether an ATen node may run \"aten::name.overload\" without an allowance; None if no ATen "
      "node can");
  module.def("libtorch_problem", &LibtorchProblem, nb::arg("installed"),
             "Why ATen nodes cannot run here, or \"\"; loads libtorch");
  DefineSchemas(module);
  DefineAtenArguments(module);
  DefineSurvey(module);
  DefineBodies(module);
  DefinePacks(module);
  DefineTorchCalls(module);
  DefineWorkers(module);
  opgraft::eager::DefineKernel(module);
  module.def(
      "declare",
      [](const std::shared_ptr<opgraft::Schema>& schema) {
        if (opgraft::Status status = Declare(schema); !status.ok()) Raise(status);
      },
      nb::arg("schema"));
  module.def(
      "make_session",
      [](std::int64_t number) {
        opgraft::workers::ExchangeSession(number);
        return std::exchange(session_in_making, number);
      },
      nb::arg("number"),
      "Assigns the operators that this thread makes from now on to that session; returns the "
      "previous one");
  module.def(
      "is_in_operator_of", [](std::int64_t session) { return InOperatorOf::Has(session); },
      nb::arg("session"), "Whether this thread is in an operator of the session with that number");
  module.def("enter_run", &EnterRun,
             "To be called when a run of a session begins; does not return once the process exits");
  module.def("leave_run", &LeaveRun, "To be called when a run of a session ends");
  module.def("close_gate", &CloseGate, "Holds back threads that still run sessions at exit");
  module.def("is_plain", &IsPlain, nb::arg("feed"),
             "Whether all values are arrays in this machine's byte order, or OrtValues");
  module.def("find_refusal", &FindRefusal, nb::arg("text"),
             "(kind of error, message) for a text from ONNX Runtime about a model, or None");
  module.def(
      "find_error", &FindError, nb::arg("text"),
      "(error class, message, number of the exception or 0) in a text from ONNX Runtime, or None");
}
