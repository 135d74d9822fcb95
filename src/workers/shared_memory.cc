// memfd, mmap and futexes.
#include "workers/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

namespace opgraft::workers {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kFirstSize = std::size_t{64} * 1024;
/// Spinning this often takes some 20 microseconds: as long as it takes to sleep and wake twice.
constexpr int kSpins = 400;

long Futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Status Failed(const char* what) {
  return Status::Unavailable(std::string("memory shared with a worker process: ") + what + ": " +
                             std::strerror(errno));
}

std::size_t WholePages(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

}  // namespace

void Post(Turn* turn, std::uint32_t number) {
  turn->number.store(number);
  if (turn->is_awaited.load() != 0) Futex(&turn->number, FUTEX_WAKE, 1, nullptr);
}

bool Await(Turn* turn, std::uint32_t number, std::int64_t nanoseconds) {
  for (int i = 0; i < kSpins; ++i) {
    if (turn->number.load(std::memory_order_acquire) == number) return true;
    Pause();
  }
  turn->is_awaited.store(1);
  const std::uint32_t seen = turn->number.load();
  if (seen != number) {
    const timespec timeout = {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    Futex(&turn->number, FUTEX_WAIT, seen, &timeout);
  }
  turn->is_awaited.store(0);
  return turn->number.load(std::memory_order_acquire) == number;
}

SharedMemory::~SharedMemory() {
  for (const auto& [place, size] : extensions_) munmap(place, size);
  if (base_ != nullptr) munmap(base_, size_);
  if (file_ >= 0) close(file_);
}

Status SharedMemory::Create() {
  is_host_ = true;
  file_ = memfd_create("opgraft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file_ < 0) return Failed("memfd_create");
  if (fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) return Failed("its seal");
  Status status = Grow(kFirstSize);
  return status.ok() ? Map(kFirstSize) : status;
}

Status SharedMemory::Open(int file) {
  file_ = file;
  struct stat found = {};
  if (fstat(file, &found) != 0) return Failed("fstat");
  return Map(static_cast<std::size_t>(found.st_size));
}

Status SharedMemory::Grow(std::size_t size) {
  // Memory that is merely promised may not be there later: writing to it would end the process.
  struct stat found = {};
  if (fstat(file_, &found) != 0) return Failed("fstat");
  const auto end = static_cast<off_t>(size);
  if (found.st_size >= end) return Status();
  int error = 0;
  while ((error = posix_fallocate(file_, found.st_size, end - found.st_size)) == EINTR) {
  }
  if (error == 0) return Status();
  errno = error;
  return Failed(("no " + std::to_string(size) + " bytes for tensors").c_str());
}

Status SharedMemory::Map(std::size_t size) {
  void* const mapped = base_ == nullptr
                           ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)
                           : mremap(base_, size_, size, MREMAP_MAYMOVE);
  if (mapped == MAP_FAILED) return Failed("mmap");
  base_ = static_cast<std::byte*>(mapped);
  size_ = size;
  // A forked child of the host has workers of its own.
  if (is_host_) madvise(base_, size_, MADV_DONTFORK);
  return Status();
}

Status SharedMemory::Reserve(std::size_t size) {
  if (size <= size_) return Status();
  const std::size_t wanted = WholePages(size);
  Status status = Grow(wanted);
  return status.ok() ? Map(wanted) : status;
}

Status SharedMemory::Refresh() {
  for (const auto& [place, size] : extensions_) munmap(place, size);
  extensions_.clear();
  struct stat found = {};
  if (fstat(file_, &found) != 0) return Failed("fstat");
  const auto size = static_cast<std::size_t>(found.st_size);
  // Both sides only ever add memory that is there. Holes would take the host's memory when read.
  if (is_host_ && static_cast<std::uint64_t>(found.st_blocks) * 512 < size / kPage * kPage) {
    return Status::Unavailable("memory shared with a worker process: it has holes");
  }
  return size > size_ ? Map(size / kPage * kPage) : Status();
}

Status SharedMemory::Extend(std::size_t size, std::size_t* offset, std::byte** place) {
  *offset = Aligned(*offset);
  if (Has(*offset, size)) {
    *place = base_ + *offset;
    return Status();
  }
  *offset = std::max(WholePages(*offset), WholePages(size_));
  const std::size_t length = WholePages(std::max<std::size_t>(size, 1));
  if (Status status = Grow(*offset + length); !status.ok()) return status;
  void* const mapped =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(*offset));
  if (mapped == MAP_FAILED) return Failed("mmap");
  extensions_.emplace_back(mapped, length);
  *place = static_cast<std::byte*>(mapped);
  return Status();
}

}  // namespace opgraft::workers
