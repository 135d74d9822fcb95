// Finds where the torch package is installed, without importing it.
#pragma once

#include <string>

#include "opgraft/status.h"

namespace opgraft::aten {

/// Finds the libtorch_cpu.so of the torch package: the one passed to TellInstalledTorch, else the
/// one beside the package opgraft, else the one of the python command that OPGRAFT_PYTHON names, or
/// of the python3 on the PATH if this process has no Python. An UnavailableError if there is none.
Status FindInstalledTorch(std::string* path);

/// The same without running a python command.
Status FindTorchWithoutAsking(std::string* path);

/// Sets where this process's Python has it; "" changes nothing.
void TellInstalledTorch(const std::string& path);

}  // namespace opgraft::aten
