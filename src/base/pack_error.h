// Collects the errors of a call into a pack: those that the host detects, and those of the pack.
#pragma once

#include <string>
#include <utility>

#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

inline Status ToStatus(const OpgraftError& error) {
  const bool is_known = error.kind >= static_cast<int>(ErrorKind::kError) &&
                        error.kind <= static_cast<int>(ErrorKind::kUnavailable);
  return {is_known ? static_cast<ErrorKind>(error.kind) : ErrorKind::kError,
          std::string(error.text.data, error.text.size)};
}

class PackErrors {
 public:
  /// Records an error that the pack passes to `fail`, whatever its function returns. Only the first
  /// is kept, because it is the cause.
  void Report(const OpgraftError& error) {
    if (is_reported_) return;
    status_ = ToStatus(error);
    is_reported_ = true;
  }

  /// Records an error that the host detects while it serves the pack, and returns what the host
  /// returns for it. The pack may go on without the result.
  int Keep(Status status) {
    if (status.ok()) return 0;
    if (!is_reported_) status_ = std::move(status);
    return 1;
  }

  /// Returns the outcome of a function that returned `returned`. Messages begin with `who`.
  Status Outcome(int returned, const std::string& who) const {
    if (returned == 0 && !is_reported_) return Status();
    if (status_.ok()) return Status::Error(who + ": it failed without an error message");
    return {status_.kind(), who + ": " + status_.message()};
  }

 private:
  Status status_;
  bool is_reported_ = false;
};

}  // namespace opgraft
