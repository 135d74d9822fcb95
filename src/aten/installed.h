// Where the torch package is installed, found without importing it.
#pragma once

#include <string>

#include "opgraft/status.h"

namespace opgraft::aten {

/// The libtorch_cpu.so of the torch package: the one that this process's Python has told of, else
/// that beside the package opgraft, else that of the python command which OPGRAFT_PYTHON names, or
/// of the python3 on the PATH where this process has no Python. An UnavailableError where there is
/// none.
Status FindInstalledTorch(std::string* path);

/// The same, as far as files alone tell: no python command is asked.
Status FindTorchWithoutAsking(std::string* path);

/// Tells where this process's Python has it; "" changes nothing.
void TellInstalledTorch(const std::string& path);

}  // namespace opgraft::aten
