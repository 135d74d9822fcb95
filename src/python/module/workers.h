// Python's part in worker processes: what a host tells them, what a worker does.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "opgraft/status.h"

namespace opgraft::pyop {

/// Bridge::describe_python, Bridge::check_signals and Bridge::keep_exception.
Status DescribePython(const std::string& python, std::string* executable, std::string* path);
Status CheckSignals();
long long KeepException(const std::string& described);

/// Adds serve(), cancel_calls() and pool_stats() to the Python module.
void DefineWorkers(nanobind::module_& module);

}  // namespace opgraft::pyop
