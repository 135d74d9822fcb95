// How the worker processes of a session are set up, as text in its options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::workers {

/// The text is "process", followed by entries such as ";workers=2;timeout=1.5". docs/isolation.md
/// describes the entries.
struct Options {
  int workers = 1;                       ///< the most processes that this session keeps busy
  std::string python;                    ///< the python command; empty: the host's own
  double timeout = 0;                    ///< seconds for one call; 0: no limit
  double start_timeout = 60;             ///< seconds for the start of a worker
  std::uint64_t memory_limit = 0;        ///< bytes of address space of a worker; 0: no limit
  std::uint64_t cpu_limit = 0;           ///< seconds of processor time for one call; 0: no limit
  int retries = 0;                       ///< of calls of pure operators whose worker has ended
  bool sandbox = false;                  ///< no network, and files are read-only
  std::string writable;                  ///< paths that are not, separated by ':'
  std::vector<std::string> environment;  ///< further variables that a worker gets

  /// Returns an Error that names the entry if `text` is malformed.
  static Status Parse(std::string_view text, Options* options);

  /// What processes must have in common to be shared by sessions.
  std::string PoolKey() const;
};

}  // namespace opgraft::workers
