// A Python exception as an error of ours; the Python half is opgraft/_failure.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "opgraft/status.h"

namespace opgraft::pyop {

// All functions here need the GIL.

/// The text of a str; empty where it is none, or no UTF-8.
std::string ToUtf8(const nanobind::object& text);

/// Raises an error as the class of `opgraft` that is of its kind. `opset_limit`: of a model that
/// was refused because it is newer, else 0.
[[noreturn]] void Raise(const Status& status, std::int64_t opset_limit = 0);

/// Takes the exception that is set.
class Failure {
 public:
  /// Describes the exception and, unless `keep_frames`, empties the frames of its traceback: they
  /// hold the arguments, whose memory is the runtime's again once the call is over.
  explicit Failure(bool keep_frames);

  /// "<what> raised ValueError: text", the traceback and a hint. Where `is_kept`, the exception is
  /// kept for the session to raise, under a number that the text begins with. `subject` is what the
  /// hint may be about: the name of a module, a namespace, the arguments of __init__.
  Status ToStatus(const std::string& what, bool is_kept) const;
  Status ToStatus(const std::string& what, bool is_kept, const nanobind::object& subject) const;
  Status ToStatus(const std::string& what, bool is_kept, const std::string& subject) const;

 private:
  nanobind::python_error error_;
  std::string text_;
};

}  // namespace opgraft::pyop
