// Reads pipes without blocking, and writes without SIGPIPE.
#include "workers/output.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>

namespace opgraft::workers {
namespace {

constexpr std::size_t kMostPassed = std::size_t{1} << 20;  ///< bytes of one call
constexpr std::size_t kTail = 4096;
constexpr int kMostReads = 64;  ///< at a time: a worker may write faster than we read

/// Writes what the descriptor takes at once. A program whose output nobody reads is not ended: only
/// the program's own writing may do that.
void Write(int to, const char* bytes, std::size_t size) {
  pollfd ready = {to, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  sigset_t pipe;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t written = write(to, bytes, size);
  if (written < 0 && sigismember(&pending, SIGPIPE) == 0) {
    const timespec now = {};
    sigtimedwait(&pipe, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Output::~Output() {
  if (pipe_ >= 0) close(pipe_);
}

bool Output::Drain() {
  std::array<char, 16 * 1024> buffer;
  bool has_read = false;
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t count = read(pipe_, buffer.data(), buffer.size());
    if (count <= 0) break;
    has_read = true;
    const auto size = static_cast<std::size_t>(count);
    PassOn(buffer.data(), size);
    tail_.append(buffer.data(), size);
    if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
  }
  return has_read;
}

void Output::PassOn(const char* bytes, std::size_t size) {
  // No more than a pipe takes at once when it is writeable, so that this never blocks for long.
  constexpr std::size_t kAtOnce = 4096;
  size = std::min(size, kMostPassed - std::min(passed_, kMostPassed));
  passed_ += size;
  for (std::size_t i = 0; i < size; i += kAtOnce)
    Write(to_, bytes + i, std::min(kAtOnce, size - i));
}

}  // namespace opgraft::workers
