// Finds the Python of this process, or starts one, and gets the bridge to it.
#pragma once

#include "opgraft/status.h"
#include "pyop/bridge.h"

namespace opgraft::pyop {

/// The bridge, once it is there; Python is started by the first call that needs it, in whatever
/// thread that is, and is never stopped. An UnavailableError says what to install. Thread-safe.
Status GetBridge(const Bridge** bridge);

}  // namespace opgraft::pyop
