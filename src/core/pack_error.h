// The errors of a call of a pack's function: those that the host met, and what the pack reports.
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
  /// What `fail` is given: an error whatever the function returns. The first is the cause.
  void Report(const OpgraftError& error) {
    if (is_reported_) return;
    status_ = ToStatus(error);
    is_reported_ = true;
  }

  /// What the host met while it answered, and returns for it. The pack may do without the answer.
  int Keep(Status status) {
    if (status.ok()) return 0;
    if (!is_reported_) status_ = std::move(status);
    return 1;
  }

  /// Of a function that has returned this, after the name of who asked it.
  Status Outcome(int returned, const std::string& who) const {
    if (returned == 0 && !is_reported_) return Status();
    if (status_.ok()) return Status::Error(who + ": it failed, and did not say why");
    return {status_.kind(), who + ": " + status_.message()};
  }

 private:
  Status status_;
  bool is_reported_ = false;
};

}  // namespace opgraft
