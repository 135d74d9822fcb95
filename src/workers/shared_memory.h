// The memory that a host and one worker share: a file without a name, which grows and is reused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::workers {

/// One side's turn: a number that this side raises, and the other one waits for.
struct alignas(64) Turn {
  std::atomic<std::uint32_t> number;
  std::atomic<std::uint32_t> is_awaited;  ///< whether the other side sleeps until it changes
};

/// At the start of the memory. Either side may write any of it at any time, so that each value is
/// read once and then checked.
struct Header {
  std::uint32_t version;  ///< kBridgeVersion of the host
  std::int32_t host;      ///< the host's process
  std::uint64_t memory_limit;
  std::uint64_t cpu_limit;
  Turn request;
  Turn reply;
  alignas(64) std::atomic<std::uint64_t> request_size;
  std::atomic<std::uint64_t> reply_offset;
  std::atomic<std::uint64_t> reply_size;
};
inline constexpr std::size_t kContents = 4096;  ///< where requests begin
static_assert(sizeof(Header) <= kContents);

/// Raises `turn` to `number`, and wakes the other side.
void Post(Turn* turn, std::uint32_t number);

/// Waits until `turn` has `number`, for at most that long. Returns whether it has.
bool Await(Turn* turn, std::uint32_t number, std::int64_t nanoseconds);

/// Returns `offset` rounded up to where tensors may begin.
constexpr std::size_t Aligned(std::size_t offset) { return (offset + 63) / 64 * 64; }

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// Creates memory that can grow but not shrink: no process can take pages from under another one.
  Status Create();
  /// Takes over the file of another process.
  Status Open(int file);

  int file() const { return file_; }
  std::size_t size() const { return size_; }
  Header* header() const { return reinterpret_cast<Header*>(base_); }
  std::byte* at(std::size_t offset) const { return base_ + offset; }

  /// Makes at least `size` bytes available. Moves the memory, unless it is large enough.
  Status Reserve(std::size_t size);
  /// Maps what the other side has added. Moves the memory, and ends what Extend has returned.
  Status Refresh();
  /// Returns whether this range is mapped.
  bool Has(std::uint64_t offset, std::uint64_t size) const {
    return offset <= size_ && size <= size_ - offset;
  }
  /// Returns a place for `size` bytes at or after `offset`, which is set to it. Moves nothing.
  Status Extend(std::size_t size, std::size_t* offset, std::byte** place);

 private:
  Status Grow(std::size_t size);
  Status Map(std::size_t size);

  bool is_host_ = false;
  int file_ = -1;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::pair<void*, std::size_t>> extensions_;
};

}  // namespace opgraft::workers
