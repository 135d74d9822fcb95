// Which session an operator belongs to: in one of ONNX Runtime's parallel mode, a run that one of
// its own operators begins waits for threads that wait for the operator.
#pragma once

#include <cstdint>
#include <utility>

namespace opgraft::pyop {

/// The number of the session that this thread is making, or 0. Its operators are made meanwhile.
inline thread_local std::int64_t session_in_making = 0;

/// Stands for the time that a thread is inside an operator of a session.
class InOperatorOf {
 public:
  explicit InOperatorOf(std::int64_t session)
      : session_(session), outer_(std::exchange(innermost_, this)) {}
  InOperatorOf(const InOperatorOf&) = delete;
  InOperatorOf& operator=(const InOperatorOf&) = delete;
  ~InOperatorOf() { innermost_ = outer_; }

  /// Whether this thread is in an operator of the session, however many others it is in besides.
  static bool Has(std::int64_t session) {
    const InOperatorOf* one = innermost_;
    while (one != nullptr && one->session_ != session) one = one->outer_;
    return one != nullptr;
  }

 private:
  const std::int64_t session_;
  const InOperatorOf* const outer_;
  static inline thread_local const InOperatorOf* innermost_ = nullptr;
};

}  // namespace opgraft::pyop
