// Which session an operator belongs to: in one of ONNX Runtime's parallel mode, a run that one of
// its own operators begins waits for threads that wait for the operator.
#pragma once

#include <cstdint>
#include <utility>

namespace opgraft::pyop {

/// The number of the session that this thread is making, or 0. Its operators are made meanwhile.
inline thread_local std::int64_t session_in_making = 0;

/// That of the session whose operator this thread is in, or 0.
inline thread_local std::int64_t session_of_operator = 0;

/// Stands for the time that a thread is inside an operator of a session.
class InOperatorOf {
 public:
  explicit InOperatorOf(std::int64_t session)
      : before_(std::exchange(session_of_operator, session)) {}
  InOperatorOf(const InOperatorOf&) = delete;
  InOperatorOf& operator=(const InOperatorOf&) = delete;
  ~InOperatorOf() { session_of_operator = before_; }

 private:
  const std::int64_t before_;
};

}  // namespace opgraft::pyop
