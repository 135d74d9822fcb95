// As much of CUDA as our kernels use, on the CPU: stands in for CUDA's header where there is no
// GPU.
//
// The threads of a block are coroutines of one thread of the CPU, the blocks run one after another.
// At each barrier, that of a shuffle too, the order of the threads is drawn anew: what lacks a
// barrier so computes something else soon. Shared memory is static memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__
#define __forceinline__ inline

struct CUstream_st;
using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  void* attrs;
  unsigned numAttrs;
};

namespace cuda_emulation {

extern "C" void opgraft_switch_stack(void** save, void* to);
// Saves what a function must preserve on the stack that is left, and takes it from the other.
asm(R"(
.text
.weak opgraft_switch_stack
.type opgraft_switch_stack, @function
opgraft_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

struct Thread {
  void* stack_pointer = nullptr;
  std::vector<char> stack;
  unsigned index = 0;
  bool is_done = false;
  bool waits = false;
  bool for_block = false;
};

struct Machine {
  static Machine& The() {
    static Machine machine;
    return machine;
  }

  void Run(const dim3& grid, const dim3& block, const std::function<void()>& kernel) {
    if (block.x > threads.size()) threads.resize(block.x);
    body = &kernel;
    block_dim = block;
    grid_dim = grid;
    for (unsigned z = 0; z < grid.z; ++z) {
      for (unsigned y = 0; y < grid.y; ++y) {
        for (unsigned x = 0; x < grid.x; ++x) {
          block_index = dim3(x, y, z);
          RunBlock();
        }
      }
    }
  }

  void Wait(bool for_block) {
    current->waits = true;
    current->for_block = for_block;
    opgraft_switch_stack(&current->stack_pointer, scheduler);
  }

  // What the lanes of a warp show each other; two of them, so that one barrier is enough.
  struct Exchange {
    std::uint64_t values[2][32];
    int turn[32];
  };

  std::vector<Thread> threads;
  std::vector<Exchange> exchanges;
  Thread* current = nullptr;
  dim3 block_index, block_dim, grid_dim;

 private:
  static constexpr std::size_t kStackBytes = 1 << 16;

  static void Enter() {
    Machine& machine = The();
    (*machine.body)();
    machine.current->is_done = true;
    void* ignored;
    opgraft_switch_stack(&ignored, machine.scheduler);
    std::abort();
  }

  void RunBlock() {
    const unsigned count = block_dim.x;
    exchanges.assign((count + 31) / 32, {});
    for (unsigned i = 0; i < count; ++i) {
      Thread& thread = threads[i];
      if (thread.stack.empty()) thread.stack.resize(kStackBytes);
      auto top = reinterpret_cast<std::uintptr_t>(thread.stack.data() + kStackBytes) & ~15UL;
      auto* const words = reinterpret_cast<void**>(top);
      words[-2] = reinterpret_cast<void*>(&Enter);
      thread.stack_pointer = words - 8;
      thread.index = i;
      thread.is_done = thread.waits = thread.for_block = false;
    }
    std::vector<unsigned> order;
    for (;;) {
      order.clear();
      for (unsigned i = 0; i < count; ++i) {
        if (!threads[i].is_done && !threads[i].waits) order.push_back(i);
      }
      if (order.empty()) {
        if (Release()) continue;
        return;
      }
      // One warp a while, then another, and each in an order of its own.
      const unsigned warp = order[random() % order.size()] / 32;
      std::erase_if(order, [&](unsigned i) { return i / 32 != warp; });
      std::shuffle(order.begin(), order.end(), random);
      for (const unsigned i : order) {
        current = &threads[i];
        opgraft_switch_stack(&scheduler, current->stack_pointer);
      }
      ReleaseWarp(warp);
    }
  }

  /// Whether all threads of the warp that live wait for their warp; if so, they go on.
  void ReleaseWarp(unsigned warp) {
    bool any = false;
    for (unsigned i = warp * 32; i < std::min(block_dim.x, warp * 32 + 32); ++i) {
      if (threads[i].is_done) continue;
      if (!threads[i].waits || threads[i].for_block) return;
      any = true;
    }
    for (unsigned i = warp * 32; any && i < std::min(block_dim.x, warp * 32 + 32); ++i) {
      threads[i].waits = false;
    }
  }

  bool Release() {
    bool any = false;
    for (unsigned i = 0; i < block_dim.x; ++i) {
      if (threads[i].is_done) continue;
      any = true;
      if (!threads[i].for_block) {
        std::fprintf(stderr, "threads of a block wait for each other in vain\n");
        std::abort();
      }
    }
    for (unsigned i = 0; i < block_dim.x; ++i) threads[i].waits = threads[i].for_block = false;
    return any;
  }

  void* scheduler = nullptr;
  const std::function<void()>* body = nullptr;
  std::mt19937 random{1};
};

struct ThreadIndex {
  struct {
    operator unsigned() const { return Machine::The().current->index; }
  } x;
};
struct BlockIndex {
  struct X {
    operator unsigned() const { return Machine::The().block_index.x; }
  } x;
  struct Y {
    operator unsigned() const { return Machine::The().block_index.y; }
  } y;
};
struct GridSize {
  struct {
    operator unsigned() const { return Machine::The().grid_dim.x; }
  } x;
};
struct BlockSize {
  struct {
    operator unsigned() const { return Machine::The().block_dim.x; }
  } x;
};

/// Shows `value` to the warp, and gives what function(values of the lanes, own lane) says.
template <class T, class Function>
auto Exchange(T value, const Function& function) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  Machine& machine = Machine::The();
  const unsigned lane = machine.current->index % 32;
  auto& exchange = machine.exchanges[machine.current->index / 32];
  std::uint64_t (&values)[32] = exchange.values[exchange.turn[lane]];
  exchange.turn[lane] ^= 1;
  std::memcpy(&values[lane], &value, sizeof(T));
  machine.Wait(false);
  return function(values, lane);
}

}  // namespace cuda_emulation

inline cuda_emulation::ThreadIndex threadIdx;
inline cuda_emulation::BlockIndex blockIdx;
inline cuda_emulation::GridSize gridDim;
inline cuda_emulation::BlockSize blockDim;

inline void __syncthreads() { cuda_emulation::Machine::The().Wait(true); }
inline void __syncwarp(unsigned = 0xffffffffU) { cuda_emulation::Machine::The().Wait(false); }

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return cuda_emulation::Exchange(value, [lane](const std::uint64_t* values, unsigned) {
    T result;
    std::memcpy(&result, &values[lane & 31], sizeof(T));
    return result;
  });
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int by) {
  return cuda_emulation::Exchange(value, [by](const std::uint64_t* values, unsigned own) {
    T result;
    std::memcpy(&result, &values[own ^ static_cast<unsigned>(by)], sizeof(T));
    return result;
  });
}
inline int __reduce_max_sync(unsigned, int value) {
  return cuda_emulation::Exchange(value, [](const std::uint64_t* values, unsigned) {
    int greatest = INT32_MIN;
    for (int i = 0; i < 32; ++i) greatest = std::max(greatest, static_cast<int>(values[i]));
    return greatest;
  });
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<std::int64_t>(x) >> 32);
}
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline std::uint64_t __umul64hi(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  cuda_emulation::Machine::The().Run(config->gridDim, config->blockDim,
                                     [&] { kernel(arguments...); });
  return cudaSuccess;
}

inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  void* found = nullptr;
  if (posix_memalign(&found, 256, bytes) != 0) return cudaErrorMemoryAllocation;
  *memory = static_cast<T*>(found);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (bytes != 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int*) { return cudaErrorNoDevice; }
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*) {
  return cudaErrorNoDevice;
}
