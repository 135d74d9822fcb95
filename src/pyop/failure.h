// A Python exception as an error of ours; the Python half is opgraft/_failure.py.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "opgraft/status.h"

namespace opgraft::pyop {

/// Takes the exception that is set. All functions here need the GIL.
class Failure {
 public:
  /// Describes the exception and, unless `keep_frames`, empties the frames of its traceback: they
  /// hold the arguments, whose memory is the runtime's again once the call is over.
  explicit Failure(bool keep_frames);

  bool IsInstance(PyObject* type) const { return error_.matches(type); }

  /// "<what> raised ValueError: text" and the traceback. Where `is_kept`, the exception is kept for
  /// the session to raise, under a number that the text begins with.
  Status ToStatus(const std::string& what, bool is_kept) const;

 private:
  nanobind::python_error error_;
  std::string text_;
};

}  // namespace opgraft::pyop
