// Memory comes from a pool of our own, which CUDA manages in the order of work on streams.
#include "cuda/gpu.h"

#include <array>
#include <cstdint>
#include <utility>

namespace opgraft::cuda {
namespace {

constexpr int kMemoryPoolsAttribute = 115;  // CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
constexpr int kReleaseThreshold = 4;        // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
constexpr unsigned kPortable = 1;           // CU_MEMHOSTALLOC_PORTABLE: for all GPUs
constexpr int kRelaxed = 2;                 // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kBlocking = 0;           // CU_STREAM_DEFAULT
constexpr KnownStream kDefaultStream;

thread_local Status last_problem;

Address ToAddress(const void* memory) { return reinterpret_cast<Address>(memory); }

}  // namespace

const Status& Gpu::FindAll(const std::vector<Gpu*>** gpus) {
  static auto* const found = new std::vector<Gpu*>;
  static const auto* const status = new Status(Search(found));
  *gpus = found;
  return *status;
}

Status Gpu::Find(std::size_t index, Gpu** gpu) {
  const std::vector<Gpu*>* gpus = nullptr;
  if (const Status& status = FindAll(&gpus); !status.ok()) return status;
  if (index >= gpus->size()) {
    return Status::Error("there is no GPU " + std::to_string(index) + ", only " +
                         std::to_string(gpus->size()));
  }
  *gpu = (*gpus)[index];
  return (*gpu)->Open();
}

Status Gpu::Search(std::vector<Gpu*>* gpus) {
  const Driver* driver = nullptr;
  if (const Status& status = LoadDriver(&driver); !status.ok()) return status;
  int count = 0;
  Status status = Check(*driver, driver->DeviceGetCount(&count), "count its GPUs");
  if (!status.ok()) return status;
  if (count == 0) return Status::Unavailable("CUDA sees no GPU (is CUDA_VISIBLE_DEVICES empty?)");
  bool is_one_fit = false;
  for (int i = 0; i < count; ++i) {
    auto* const gpu = new Gpu(*driver, i);
    gpus->push_back(gpu);
    int device = 0;
    std::array<char, 256> name = {};
    int has_pools = 0;
    status = Check(*driver, driver->DeviceGet(&device, i), "find GPU " + std::to_string(i));
    if (status.ok()) {
      status =
          Check(*driver, driver->DeviceGetName(name.data(), name.size() - 1, device), "name it");
    }
    gpu->name_ = name.data();
    if (status.ok()) {
      status = Check(*driver, driver->DeviceGetAttribute(&has_pools, kMemoryPoolsAttribute, device),
                     "describe it");
    }
    if (status.ok() && has_pools == 0) {
      status = Status::Unavailable("GPU " + std::to_string(i) + ", " + gpu->name_ +
                                   ", has no memory pools, which Opgraft needs");
    }
    gpu->fitness_ = status;
    if (status.ok()) is_one_fit = true;
  }
  return is_one_fit ? Status() : status;
}

Status Gpu::Open() {
  if (is_open_.load(std::memory_order_acquire)) return Status();
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr || !fitness_.ok()) return fitness_;
  int device = 0;
  Context context = nullptr;
  Status status = Check(driver_, driver_.DeviceGet(&device, index_), "find the GPU");
  if (status.ok()) {
    status = Check(driver_, driver_.DevicePrimaryCtxRetain(&context, device), "open the GPU");
  }
  if (!status.ok()) return status;
  PoolProperties properties;
  properties.location = index_;
  Pool pool = nullptr;
  status = Check(driver_, driver_.MemPoolCreate(&pool, &properties), "create a memory pool");
  if (!status.ok()) return status;
  // The pool keeps up to an eighth of all memory when it is not used: otherwise CUDA would return
  // it to the system at each synchronization, and reacquire it at great cost. The rest is for
  // others.
  std::size_t total = 0;
  status = Check(driver_, driver_.DeviceTotalMem(&total, device), "read the size of its memory");
  if (!status.ok()) return status;
  std::uint64_t threshold = total / 8;
  status = Check(driver_, driver_.MemPoolSetAttribute(pool, kReleaseThreshold, &threshold),
                 "configure a memory pool");
  if (!status.ok()) return status;
  pool_ = pool;
  context_ = context;
  is_open_.store(true, std::memory_order_release);
  return status;
}

Context Gpu::Enter() {
  Context before = nullptr;
  static_cast<void>(driver_.CtxGetCurrent(&before));
  if (before != context_) static_cast<void>(driver_.CtxSetCurrent(context_));
  return before;
}

void Gpu::Leave(Context before) {
  if (before != context_) static_cast<void>(driver_.CtxSetCurrent(before));
}

template <class Try>
int Gpu::Demand(Try try_once) {
  int result = try_once();
  if (result != kOutOfMemory) return result;
  // Memory freed on streams with pending work becomes available when that work is done.
  static_cast<void>(driver_.CtxSynchronize());
  static_cast<void>(driver_.MemPoolTrimTo(pool_, 0));
  return try_once();
}

// Host memory may run out, too: then the allocation of device memory fails as well.
void* Gpu::Allocate(std::size_t bytes, const KnownStream& known) noexcept try {
  if (bytes == 0) return nullptr;
  if (Status status = Open(); !status.ok()) {
    last_problem = std::move(status);
    return nullptr;
  }
  const InGpu entered(*this);
  const Stream stream = known.stream;
  const bool is_recorded = ModeOf(stream) == Mode::kRecords;
  if (!is_recorded) FreeDeferred();
  Address memory = 0;
  const auto try_once = [&] {
    return driver_.MemAllocFromPoolAsync(&memory, bytes, pool_, stream);
  };
  const int result = is_recorded ? try_once() : Demand(try_once);
  if (result != kSuccess) {
    last_problem = Check(driver_, result, "allocate " + std::to_string(bytes) + " bytes");
    return nullptr;
  }
  auto* const pointer = reinterpret_cast<void*>(memory);  // NOLINT(performance-no-int-to-ptr)
  const std::lock_guard lock(mutex_);
  owners_[pointer] = {stream, is_recorded, !known.is_kept};
  return pointer;
} catch (...) {
  last_problem = Status::Error("no host memory");  // short enough to need no allocation
  return nullptr;
}

Status Gpu::LastProblem() { return last_problem; }

bool Gpu::IsPinned(const void* memory) {
  const InGpu entered(*this);
  constexpr int kMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  constexpr int kHostMemory = 1;  // CU_MEMORYTYPE_HOST
  int type = 0;
  return driver_.PointerGetAttribute(&type, kMemoryType, ToAddress(memory)) == kSuccess &&
         type == kHostMemory;
}

void* Gpu::AllocateForAll(std::size_t bytes) noexcept try {
  void* const memory = Allocate(bytes, kDefaultStream);
  if (memory == nullptr) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    owners_[memory].is_shared = true;
  }
  if (Synchronize(kDefaultStream.stream).ok()) return memory;
  Free(memory);
  return nullptr;
} catch (...) {
  return nullptr;
}

void Gpu::Free(void* memory, const KnownStream* current) noexcept try {
  if (memory == nullptr) return;
  const InGpu entered(*this);
  Owner owner;
  {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(memory);
    if (found == owners_.end()) return;
    owner = found->second;
    owners_.erase(found);
  }
  const bool was_shared = owner.is_shared;
  if (owner.is_shared) {
    const bool is_of_run = current != nullptr && current->stream == owner.stream;
    if (is_of_run && owner.stream != kDefaultStream.stream) {
      owner.is_shared = false;
    } else {
      owner.stream = kDefaultStream.stream;
    }
  }
  if (TryToFree(memory, owner)) return;
  if (was_shared) owner = {kDefaultStream.stream, owner.is_recorded, true};  // may be gone by then
  const std::lock_guard lock(mutex_);
  deferred_.emplace_back(memory, owner);
} catch (...) {  // then the memory is leaked
}

bool Gpu::TryToFree(void* memory, const Owner& owner) const {
  const Mode mode = ModeOf(owner.stream);
  // If it were recorded, the memory would be freed whenever the graph runs, and the recording would
  // fail.
  if (mode == Mode::kWaits || (mode == Mode::kRecords && !owner.is_recorded)) return false;
  if (owner.is_shared) static_cast<void>(driver_.CtxSynchronize());
  // Otherwise a graph that this or another thread is recording would be lost.
  int capture_mode = kRelaxed;
  static_cast<void>(driver_.ThreadExchangeStreamCaptureMode(&capture_mode));
  // An error is ignored: memory of a graph that was never run belongs to the graph.
  static_cast<void>(driver_.MemFreeAsync(ToAddress(memory), owner.stream));
  static_cast<void>(driver_.ThreadExchangeStreamCaptureMode(&capture_mode));
  return true;
}

void Gpu::FreeDeferred() {
  std::vector<std::pair<void*, Owner>> pieces;
  {
    const std::lock_guard lock(mutex_);
    if (deferred_.empty()) return;
    pieces.swap(deferred_);
  }
  std::erase_if(pieces, [&](const auto& one) { return TryToFree(one.first, one.second); });
  const std::lock_guard lock(mutex_);
  deferred_.insert(deferred_.end(), pieces.begin(), pieces.end());
}

Gpu::Mode Gpu::ModeOf(Stream stream) const {
  int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  if (driver_.StreamIsCapturing(stream, &status) != kSuccess) return Mode::kWaits;
  return status == 0 ? Mode::kRuns : Mode::kRecords;
}

void* Gpu::AllocatePinned(std::size_t bytes) noexcept try {
  if (bytes == 0 || !Open().ok()) return nullptr;
  const InGpu entered(*this);
  void* memory = nullptr;
  const int result = driver_.MemHostAlloc(&memory, bytes, kPortable);
  return result == kSuccess ? memory : nullptr;
} catch (...) {
  return nullptr;
}

void Gpu::FreePinned(void* memory) {
  const InGpu entered(*this);
  if (memory != nullptr) static_cast<void>(driver_.MemFreeHost(memory));
}

Status Gpu::TakeStream(Stream* stream) {
  {
    const std::lock_guard lock(mutex_);
    if (!streams_.empty()) {
      *stream = streams_.back();
      streams_.pop_back();
      return Status();
    }
  }
  const InGpu entered(*this);
  return Check(driver_, driver_.StreamCreate(stream, kBlocking), "create a stream");
}

void Gpu::GiveStream(Stream stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

Status Gpu::Copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return Status();
  const InGpu entered(*this);
  const int result = driver_.MemcpyAsync(ToAddress(to), ToAddress(from), bytes, stream);
  if (result == kSuccess) return Status();
  return Check(driver_, result, "copy " + std::to_string(bytes) + " bytes");
}

Status Gpu::Synchronize(Stream stream) {
  const InGpu entered(*this);
  return Check(driver_, driver_.StreamSynchronize(stream), "finish its work");
}

Status Gpu::SynchronizeAll() {
  const InGpu entered(*this);
  return Check(driver_, driver_.CtxSynchronize(), "finish its work");
}

}  // namespace opgraft::cuda
