// An error of a pack, as one of ours.
#pragma once

#include <string>

#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

inline Status ToStatus(const OpgraftError& error) {
  const bool is_known = error.kind >= static_cast<int>(ErrorKind::kError) &&
                        error.kind <= static_cast<int>(ErrorKind::kUnavailable);
  return {is_known ? static_cast<ErrorKind>(error.kind) : ErrorKind::kError,
          std::string(error.text.data, error.text.size)};
}

/// What a pack's function that failed left behind, after the name of who asked it.
inline Status ErrorOfPack(const std::string& who, const Status& status) {
  if (status.ok()) return Status::Error(who + ": it failed, and did not say why");
  return {status.kind(), who + ": " + status.message()};
}

}  // namespace opgraft
