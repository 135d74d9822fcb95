// Which session an operator belongs to. This is needed to refuse a run that would deadlock: if an
// operator runs its own session in ONNX Runtime's parallel mode, the run waits for threads that
// wait for the operator.
#pragma once

#include <cstdint>
#include <utility>

namespace opgraft::pyop {

/// The number of the session that this thread is creating, or 0. Its operators are created during
/// that time.
inline thread_local std::int64_t session_in_making = 0;

/// Marks that this thread is inside an operator of a session, for as long as it lives.
class InOperatorOf {
 public:
  explicit InOperatorOf(std::int64_t session)
      : session_(session), outer_(std::exchange(innermost_, this)) {}
  InOperatorOf(const InOperatorOf&) = delete;
  InOperatorOf& operator=(const InOperatorOf&) = delete;
  ~InOperatorOf() { innermost_ = outer_; }

  /// Whether this thread is in an operator of the session, at any level of nesting.
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
