// What a worker process does: it makes operators and calls them, as its host asks.
#pragma once

#include <memory>
#include <string>

#include "bridge/bridge.h"
#include "core/policy.h"
#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::workers {

/// The descriptors that a worker starts with.
inline constexpr int kControl = 3;
inline constexpr int kMemory = 4;

/// What opgraft._pyop does for a worker.
struct Python {
  Status (*create)(const pyop::Spec& spec, const Policy& policy, const pyop::Gpu* gpu,
                   std::unique_ptr<pyop::Operator>* made);
  /// Puts the host's folders on Python's path, and forgets the module if its file has changed.
  Status (*find_module)(const std::string& path, const std::string& module);
  /// Returns, as text, the exception that is kept under a number; "" if there is none.
  std::string (*take_exception)(long long number);
};

/// Serves the host until that ends. Returns an error if the host is of another version.
Status Serve(const Python& python);

}  // namespace opgraft::workers
