// Turns a Python exception into an error of ours; the Python half is opgraft/_base/_failure.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "opgraft/status.h"

namespace opgraft::pyop {

// All functions here need the GIL.

/// Returns the text of a str; empty if the object is not a str or cannot be encoded as UTF-8.
std::string ToUtf8(const nanobind::object& text);

/// Raises the exception class of `opgraft` for the error's kind. `opset_limit` is the newest
/// supported opset if the model was refused for being newer, otherwise 0.
[[noreturn]] void Raise(const Status& status, std::int64_t opset_limit = 0);

/// Takes the Python exception that is set.
class Failure {
 public:
  /// Describes the exception and, unless `keep_frames`, empties the frames of its traceback: they
  /// hold the arguments, whose memory goes back to the runtime when the call ends.
  explicit Failure(bool keep_frames);

  /// Returns "<what> raised ValueError: text" with the traceback and a hint. If `is_kept`, the
  /// exception is kept for the session to raise, under a number that the text begins with. The hint
  /// may be about `subject`: the name of a module, a namespace, the arguments of __init__.
  Status ToStatus(const std::string& what, bool is_kept) const;
  Status ToStatus(const std::string& what, bool is_kept, const nanobind::object& subject) const;
  Status ToStatus(const std::string& what, bool is_kept, const std::string& subject) const;

 private:
  nanobind::python_error error_;
  std::string text_;
};

}  // namespace opgraft::pyop
