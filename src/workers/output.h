// What a worker writes to its standard output and error: passed on to the host's, within limits.
#pragma once

#include <cstddef>
#include <string>

namespace opgraft::workers {

/// The reading end of a pipe. It is emptied while the host waits for the worker.
class Output {
 public:
  /// `to` is the host's own descriptor, 1 or 2.
  explicit Output(int to) : to_(to) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  /// Takes over a descriptor that does not block.
  void Open(int pipe) { pipe_ = pipe; }
  /// A call begins: it may pass on kMostPassed bytes, the rest is dropped.
  void Begin() { passed_ = 0; }
  /// Reads what there is. Returns whether there was any.
  bool Drain();
  /// The end of what has been written.
  const std::string& tail() const { return tail_; }

 private:
  void PassOn(const char* bytes, std::size_t size);

  const int to_;
  int pipe_ = -1;
  std::size_t passed_ = 0;
  std::string tail_;
};

}  // namespace opgraft::workers
