// What the tests of CUDA kernels share. They need nothing but CUDA, so that one command builds
// them.
#pragma once

#include <cuda_runtime.h>
#include <opgraft/element.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "ops/contrib/cuda.h"

namespace opgraft::cuda_testing {

/// Whether the sizes are to be so small that a checker of memory or an emulation can keep up.
bool IsSmall();

/// Prints a line about what is wrong, as printf does, and makes the program fail.
[[gnu::format(printf, 1, 2)]] void Fail(const char* format, ...);

/// Ends the program if the error is one: what comes after it would have no meaning.
void Require(contrib::CudaError error, const char* what);
inline void Require(cudaError_t status, const char* what) {
  Require(status == cudaSuccess ? nullptr : cudaGetErrorString(status), what);
}

struct Test {
  const char* name;
  void (*run)();
};
/// Takes a test, or a measurement, in. Call it before main.
int AddTest(const Test& test);
int AddBenchmark(const Test& test);

/// Values in device memory, with bytes before and after them that nobody may write.
template <class T>
class DeviceValues {
 public:
  /// `offset` elements further than a multiple of 256 bytes.
  explicit DeviceValues(const std::vector<T>& values, std::size_t offset = 0)
      : count_(values.size()), before_(kGuard + offset * sizeof(T)) {
    // A checker of memory finds the end of the allocation better than we do.
    bytes_ = before_ + count_ * sizeof(T) + (IsSmall() ? 0 : kGuard);
    Require(cudaMalloc(&memory_, bytes_), "cudaMalloc");
    std::vector<unsigned char> bytes(bytes_, kMark);
    if (count_ != 0) std::memcpy(bytes.data() + before_, values.data(), count_ * sizeof(T));
    Require(cudaMemcpy(memory_, bytes.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceValues() { Require(cudaFree(memory_), "cudaFree"); }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  T* data() { return reinterpret_cast<T*>(static_cast<unsigned char*>(memory_) + before_); }

  /// Waits for the GPU.
  std::vector<T> Read() {
    std::vector<unsigned char> bytes(bytes_);
    Require(cudaDeviceSynchronize(), "a kernel");
    Require(cudaMemcpy(bytes.data(), memory_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (std::size_t i = 0; i < bytes_; ++i) {
      if (i == before_) i += count_ * sizeof(T);
      if (i < bytes_ && bytes[i] != kMark) {
        Fail("byte %zu of %zu, %zu of them in use from %zu on, has been written", i, bytes_,
             count_ * sizeof(T), before_);
        break;
      }
    }
    std::vector<T> values(count_);
    if (count_ != 0) std::memcpy(values.data(), bytes.data() + before_, count_ * sizeof(T));
    return values;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kMark = 0xa5;
  std::size_t count_;
  std::size_t before_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

/// Scratch memory that lives as long as this.
class Scratch {
 public:
  explicit Scratch(bool has_memory = true) : has_memory_(has_memory) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  contrib::DeviceScratch get() { return {Allocate, this}; }

 private:
  static void* Allocate(void* self, std::size_t bytes);

  bool has_memory_;
  std::vector<void*> memory_;
};

template <class T>
inline constexpr const char* kNameOf = "";
template <>
inline constexpr const char* kNameOf<float> = "float";
template <>
inline constexpr const char* kNameOf<double> = "double";
template <>
inline constexpr const char* kNameOf<Float16> = "float16";
template <>
inline constexpr const char* kNameOf<BFloat16> = "bfloat16";

/// Of the standard normal distribution.
template <class T>
std::vector<T> Random(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values(count);
  for (T& value : values) value = T(normal(random));
  return values;
}

}  // namespace opgraft::cuda_testing

/// A function that is run as a test, or with --bench.
#define CUDA_TEST(name)                                                                           \
  static void name();                                                                             \
  [[maybe_unused]] static const int name##_added = opgraft::cuda_testing::AddTest({#name, name}); \
  static void name()
#define CUDA_BENCHMARK(name)                              \
  static void name();                                     \
  [[maybe_unused]] static const int name##_added =        \
      opgraft::cuda_testing::AddBenchmark({#name, name}); \
  static void name()
