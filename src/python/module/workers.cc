// Calls opgraft._base._worker and opgraft._base._host_of_workers.
#include "python/module/workers.h"

#include <nanobind/stl/string.h>

#include "python/call/exit_gate.h"
#include "python/call/failure.h"
#include "python/call/gil.h"
#include "python/module/python_operator.h"
#include "workers/options.h"
#include "workers/pool.h"
#include "workers/serve.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

constexpr char kHost[] = "opgraft._base._host_of_workers";
constexpr char kWorker[] = "opgraft._base._worker";
constexpr char kExceptions[] = "opgraft._base._sent_exceptions";

/// Calls `body` with the GIL held; `what` names it in the error for an exception.
template <class Body>
Status InPython(const std::string& what, Body body) {
  const ScopedGil gil;
  try {
    body();
    return Status();
  } catch (nb::python_error& error) {
    error.restore();
    return Failure(/*keep_frames=*/false).ToStatus(what, true);
  }
}

std::string ContentsOf(const nb::object& bytes) {
  const nb::bytes read = nb::cast<nb::bytes>(bytes);
  return {read.c_str(), read.size()};
}

Status FindModule(const std::string& path, const std::string& module) {
  return InPython("a worker process: finding '" + module + "'", [&] {
    nb::module_::import_(kWorker).attr("find_module")(nb::bytes(path.data(), path.size()),
                                                      nb::str(module.c_str(), module.size()));
  });
}

std::string TakeException(long long number) {
  std::string described;
  static_cast<void>(InPython("an exception", [&] {
    described = ContentsOf(nb::module_::import_(kExceptions).attr("describe")(number));
  }));
  return described;
}

void ServeHost() {
  constexpr workers::Python kPython = {&CreateOperator, &FindModule, &TakeException};
  Status status;
  WithoutGil([&] { status = workers::Serve(kPython); });
  Raise(status);
}

nb::dict PoolStatistics() {
  const workers::Statistics read = workers::ReadStatistics();
  nb::dict statistics;
  statistics["workers"] = read.workers;
  statistics["calls"] = read.calls;
  statistics["started"] = read.started;
  statistics["restarts"] = read.restarts;
  statistics["bytes"] = read.bytes;
  statistics["queued_seconds"] = read.queued;
  return statistics;
}

}  // namespace

Status DescribePython(const std::string& python, std::string* executable, std::string* path) {
  return InPython("the look-up of Python for worker processes", [&] {
    const nb::tuple found = nb::cast<nb::tuple>(
        nb::module_::import_(kHost).attr("describe_python")(nb::str(python.c_str())));
    *executable = ContentsOf(found[0]);
    *path = ContentsOf(found[1]);
  });
}

Status CheckSignals() {
  const ScopedGil gil;
  if (PyErr_CheckSignals() == 0) return Status();
  return Failure(/*keep_frames=*/true).ToStatus("a signal's handler", true);
}

long long KeepException(const std::string& described) {
  long long number = 0;
  static_cast<void>(InPython("an exception", [&] {
    number = nb::cast<long long>(nb::module_::import_(kExceptions)
                                     .attr("keep")(nb::bytes(described.data(), described.size())));
  }));
  return number;
}

void DefineWorkers(nb::module_& module) {
  module.def("serve", &ServeHost, "Serves the host of this worker process; never returns");
  module.def("cancel_calls", &workers::CancelCalls, nb::arg("session"),
             "Ends the calls of a session, or of all if it is 0, that run in worker processes");
  module.def("pool_stats", &PoolStatistics,
             "What the worker processes of this process have done: how many there are, calls, how "
             "many were started and restarted, bytes of tensors, and seconds that calls waited");
  module.def(
      "check_isolation",
      [](const std::string& text) {
        workers::Options options;
        if (Status status = workers::Options::Parse(text, &options); !status.ok()) Raise(status);
      },
      nb::arg("text"), "Raises an Error if the text of a session's isolation is malformed");
}

}  // namespace opgraft::pyop
