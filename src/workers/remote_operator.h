// A Python operator that runs in worker processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bridge/bridge.h"
#include "model/python_spec.h"
#include "opgraft/status.h"
#include "workers/options.h"

namespace opgraft::workers {

/// Makes the operator in a worker. The host has asked its policy whether `spec` may run; the worker
/// asks a policy of the modules in `allow`, for what the operator's module leads to. `session` is
/// the number of the session.
Status CreateRemote(const pyop::Spec& spec, const std::string& allow, const Options& options,
                    std::int64_t session, std::unique_ptr<pyop::Operator>* made);

}  // namespace opgraft::workers
