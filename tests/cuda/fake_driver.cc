// Stands in for CUDA's driver where there is no GPU: its memory faults when the CPU touches it, and
// its streams are threads, so that work which is not ordered goes wrong here as it does on a GPU.
//
// Kernels of tests reach the memory by `fake_alias`, on a stream by `fake_launch`.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kOutOfMemory = 2;
constexpr int kInvalidValue = 1;
constexpr std::size_t kArena = std::size_t{1} << 32;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kPageCount = kArena / kPage;

std::size_t Setting(const char* name, std::size_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// A piece of work, to be done after others.
struct Work {
  std::function<void()> body;
  std::vector<std::shared_ptr<Work>> after;
  bool is_done = false;
};

struct Stream {
  bool is_blocking = true;
  std::deque<std::shared_ptr<Work>> queue;
  std::shared_ptr<Work> last;
};

class Gpu {
 public:
  Gpu() {
    const int file = memfd_create("fake_gpu", 0);
    if (ftruncate(file, kArena) != 0) std::abort();
    device_ =
        static_cast<char*>(mmap(nullptr, kArena, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0));
    alias_ = static_cast<char*>(
        mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0));
    free_[0] = kPageCount;
    limit_ = Setting("FAKE_CUDA_MEMORY", std::size_t{1} << 30);
    delay_ = std::chrono::microseconds(Setting("FAKE_CUDA_DELAY", 0));
    streams_.insert(&default_);
    Start(&default_);
  }

  bool IsDevice(const void* memory) const { return memory >= device_ && memory < device_ + kArena; }
  void* Alias(const void* memory) const {
    return alias_ + (static_cast<const char*>(memory) - device_);
  }

  Stream* Of(void* stream) { return stream == nullptr ? &default_ : static_cast<Stream*>(stream); }

  Stream* MakeStream(bool is_blocking) {
    auto* const stream = new Stream;
    stream->is_blocking = is_blocking;
    const std::lock_guard lock(mutex_);
    streams_.insert(stream);
    Start(stream);
    return stream;
  }

  /// Work is done after what is on its stream; on the default stream also after what is on the
  /// blocking ones, and on those after what is on the default one.
  std::shared_ptr<Work> Launch(void* on, std::function<void()> body) {
    const auto work = std::make_shared<Work>();
    work->body = std::move(body);
    const std::lock_guard lock(mutex_);
    Stream* const stream = Of(on);
    if (stream == &default_) {
      for (Stream* other : streams_) {
        if (other->is_blocking && other->last) work->after.push_back(other->last);
      }
    } else if (stream->is_blocking && default_.last) {
      work->after.push_back(default_.last);
    }
    stream->queue.push_back(work);
    stream->last = work;
    changed_.notify_all();
    return work;
  }

  void Wait(const std::shared_ptr<Work>& work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work == nullptr || work->is_done; });
  }
  void WaitFor(void* stream) {
    Wait(Launch(stream, [] {}));
  }
  void WaitForAll() {
    std::vector<std::shared_ptr<Work>> all;
    {
      const std::lock_guard lock(mutex_);
      for (Stream* stream : streams_) all.push_back(stream->last);
    }
    for (const auto& work : all) Wait(work);
  }

  int Allocate(std::size_t bytes, void** memory) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t pages = (bytes + kPage - 1) / kPage;
    if (used_ + bytes > limit_) return kOutOfMemory;
    for (const auto& [first, count] : free_) {
      if (count < pages) continue;
      const std::uint64_t begin = first;
      const std::uint64_t rest = count - pages;
      free_.erase(begin);
      if (rest > 0) free_[begin + pages] = rest;
      *memory = device_ + begin * kPage;
      sizes_[*memory] = bytes;
      used_ += bytes;
      return 0;
    }
    return kOutOfMemory;
  }

  /// Spoils it, in the stream's order: who still reads it sees that.
  int Free(void* memory, void* stream) {
    {
      const std::lock_guard lock(mutex_);
      if (sizes_.count(memory) == 0) return kInvalidValue;
    }
    Launch(stream, [this, memory] {
      std::unique_lock lock(mutex_);
      const std::size_t bytes = sizes_[memory];
      std::memset(Alias(memory), 0xDD, bytes);
      sizes_.erase(memory);
      used_ -= bytes;
      free_[static_cast<std::uint64_t>(static_cast<char*>(memory) - device_) / kPage] =
          (bytes + kPage - 1) / kPage;
    });
    return 0;
  }

  std::size_t used() {
    const std::lock_guard lock(mutex_);
    return used_;
  }

 private:
  void Start(Stream* stream) {
    std::thread([this, stream] {
      while (true) {
        std::shared_ptr<Work> work;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return !stream->queue.empty(); });
          work = stream->queue.front();
          changed_.wait(lock, [&] {
            return std::all_of(work->after.begin(), work->after.end(),
                               [](const auto& one) { return one->is_done; });
          });
        }
        if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
        work->body();
        const std::lock_guard lock(mutex_);
        stream->queue.pop_front();
        work->is_done = true;
        work->after.clear();
        work->body = nullptr;
        changed_.notify_all();
      }
    }).detach();
  }

  char* device_ = nullptr;
  char* alias_ = nullptr;
  std::size_t limit_ = 0;
  std::chrono::microseconds delay_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  Stream default_;
  std::set<Stream*> streams_;
  std::map<std::uint64_t, std::uint64_t> free_;  // pages: first, count
  std::map<void*, std::size_t> sizes_;
  std::size_t used_ = 0;
};

Gpu& TheGpu() {
  static auto* const gpu = new Gpu;
  return *gpu;
}

std::atomic<long> to_device{0}, to_host{0}, on_device{0}, waits{0}, launches{0};
std::mutex pinned_mutex;
std::map<void*, std::size_t> pinned;
thread_local void* current = nullptr;
char context = 0;
char pool = 0;

bool IsPinned(const void* memory) {
  const std::lock_guard lock(pinned_mutex);
  return std::any_of(pinned.begin(), pinned.end(), [&](const auto& one) {
    return memory >= one.first && memory < static_cast<char*>(one.first) + one.second;
  });
}

}  // namespace

extern "C" {

// For tests.
void* fake_alias(void* memory) {
  return IsPinned(memory) ? memory : TheGpu().Alias(memory);  // a GPU reaches pinned memory, too
}
bool fake_is_pinned(void* memory) { return IsPinned(memory); }
void fake_launch(void* stream, void (*kernel)(void*), void* argument) {
  ++launches;
  TheGpu().Launch(stream, [=] { kernel(argument); });
}
/// Work that takes a while, as a kernel of somebody else's does.
void fake_delay(void* stream, int milliseconds) {
  TheGpu().Launch(stream,
                  [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
}
void* fake_stream(int is_blocking) { return TheGpu().MakeStream(is_blocking != 0); }
long fake_count(int which) {
  const long counts[] = {to_device, to_host, on_device, waits, launches};
  return counts[which];
}
size_t fake_used() {
  TheGpu().WaitForAll();
  return TheGpu().used();
}

int cuInit(unsigned) { return static_cast<int>(Setting("FAKE_CUDA_INIT", 0)); }
int cuGetErrorName(int error, const char** name) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_FAKE";
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "an error of the fake driver";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Setting("FAKE_CUDA_GPUS", 1));
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return 0;
}
int cuDeviceGetAttribute(int* value, int, int) {
  *value = 1;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** made, int) {
  *made = &context;
  return 0;
}
int cuCtxGetCurrent(void** found) {
  *found = current;
  return 0;
}
int cuCtxSetCurrent(void* given) {
  current = given;
  return 0;
}
int cuCtxSynchronize() {
  ++waits;
  TheGpu().WaitForAll();
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) {
  *stream = TheGpu().MakeStream(flags == 0);
  return 0;
}
int cuStreamSynchronize(void* stream) {
  ++waits;
  TheGpu().WaitFor(stream);
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuStreamIsCapturing(void*, int* status) {
  *status = 0;
  return 0;
}
int cuMemPoolCreate(void** made, const void*) {
  *made = &pool;
  return 0;
}
int cuMemPoolSetAttribute(void*, int, void*) { return 0; }
int cuMemPoolTrimTo(void*, std::size_t) { return 0; }
int cuMemAllocFromPoolAsync(unsigned long long* memory, std::size_t bytes, void*, void* stream) {
  if (current != &context) return kInvalidValue;
  void* found = nullptr;
  const int result = TheGpu().Allocate(bytes, &found);
  *memory = reinterpret_cast<unsigned long long>(found);
  if (result == 0) TheGpu().Launch(stream, [] {});
  return result;
}
int cuMemFreeAsync(unsigned long long memory, void* stream) {
  return TheGpu().Free(reinterpret_cast<void*>(memory), stream);
}
int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  const std::lock_guard lock(pinned_mutex);
  pinned[*memory] = bytes;
  return 0;
}
int cuMemFreeHost(void* memory) {
  TheGpu().WaitForAll();
  const std::lock_guard lock(pinned_mutex);
  pinned.erase(memory);
  std::free(memory);
  return 0;
}
int cuPointerGetAttribute(void* value, int, unsigned long long memory) {
  const bool is_known = IsPinned(reinterpret_cast<void*>(memory));
  *static_cast<int*>(value) = 1;  // CU_MEMORYTYPE_HOST
  return is_known ? 0 : kInvalidValue;
}
int cuMemcpyAsync(unsigned long long to_address, unsigned long long from_address, std::size_t bytes,
                  void* stream) {
  Gpu& gpu = TheGpu();
  void* to = reinterpret_cast<void*>(to_address);
  void* from = reinterpret_cast<void*>(from_address);
  const bool is_to_device = gpu.IsDevice(to);
  const bool is_from_device = gpu.IsDevice(from);
  if (is_to_device && is_from_device) ++on_device;
  if (is_to_device && !is_from_device) ++to_device;
  if (!is_to_device && is_from_device) ++to_host;
  if (is_to_device) to = gpu.Alias(to);
  if (is_from_device) from = gpu.Alias(from);
  if (is_from_device || IsPinned(from)) {
    gpu.Launch(stream, [=] { std::memcpy(to, from, bytes); });
    return 0;
  }
  // Pageable memory is the caller's again when the call returns.
  const auto kept = std::make_shared<std::vector<char>>(static_cast<char*>(from),
                                                        static_cast<char*>(from) + bytes);
  gpu.Launch(stream, [=] { std::memcpy(to, kept->data(), bytes); });
  return 0;
}

}  // extern "C"
