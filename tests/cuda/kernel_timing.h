// Times of CUDA kernels on the device, by replays of a CUDA graph and by events: what the
// *_cuda_bench.cu of operators share.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/kernel_testing.h"

namespace opgraft::cuda_testing {

using contrib::CudaStream;
using contrib::DeviceScratch;

/// Device memory, not initialised.
template <class T>
class Memory {
 public:
  explicit Memory(std::size_t count) {
    Require(cudaMalloc(&data_, std::max<std::size_t>(1, count) * sizeof(T)), "cudaMalloc");
  }
  ~Memory() { Require(cudaFree(data_), "cudaFree"); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* data() { return data_; }

 private:
  T* data_ = nullptr;
};

/// The same scratch memory for each call, which a capture can so use without an allocation.
class SameScratch {
 public:
  ~SameScratch() { Require(cudaFree(memory_), "cudaFree"); }
  DeviceScratch get() { return {Allocate, this}; }

 private:
  static void* Allocate(void* self, std::size_t bytes) {
    auto& scratch = *static_cast<SameScratch*>(self);
    if (bytes > scratch.bytes_) {
      Require(cudaFree(scratch.memory_), "cudaFree");
      Require(cudaMalloc(&scratch.memory_, bytes), "cudaMalloc");
      scratch.bytes_ = bytes;
    }
    return scratch.memory_;
  }
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  /// Microseconds of one call: in a graph of several calls one after another, and between events
  /// around a single one.
  double by_graph = 0;
  double by_events = 0;
};

class Clock {
 public:
  Clock() {
    Require(cudaStreamCreate(&stream_), "cudaStreamCreate");
    Require(cudaEventCreate(&start_), "cudaEventCreate");
    Require(cudaEventCreate(&end_), "cudaEventCreate");
  }

  Times Measure(const std::function<void(CudaStream)>& call) {
    call(stream_);
    call(stream_);
    const double once = Between([&] { call(stream_); });
    // About 100 ms for each way, but enough for a median.
    const int rounds = static_cast<int>(std::clamp(100'000 / once, 5.0, 100.0));
    Times times;
    std::vector<double> taken;
    for (int i = 0; i < rounds; ++i) taken.push_back(Between([&] { call(stream_); }));
    times.by_events = Median(taken);

    const int calls = once < 1000 ? 20 : 1;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    Require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < calls; ++i) call(stream_);
    Require(cudaStreamEndCapture(stream_, &graph), "capture");
    Require(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    taken.clear();
    Require(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
    for (int i = 0; i < std::max(5, rounds / calls); ++i) {
      taken.push_back(
          Between([&] { Require(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch"); }) /
          calls);
    }
    times.by_graph = Median(taken);
    Require(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    Require(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return times;
  }

 private:
  double Between(const std::function<void()>& call) {
    Require(cudaEventRecord(start_, stream_), "cudaEventRecord");
    call();
    Require(cudaEventRecord(end_, stream_), "cudaEventRecord");
    Require(cudaEventSynchronize(end_), "a kernel");
    float milliseconds = 0;
    Require(cudaEventElapsedTime(&milliseconds, start_, end_), "cudaEventElapsedTime");
    return milliseconds * 1e3;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Copies values, which repeat, to all of an array of `count`.
template <class T>
void Fill(T* to, std::size_t count, const std::vector<T>& values) {
  std::size_t done = std::min(count, values.size());
  Require(cudaMemcpy(to, values.data(), done * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  while (done < count) {
    const std::size_t more = std::min(done, count - done);
    Require(cudaMemcpy(to + done, to, more * sizeof(T), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    done += more;
  }
}

}  // namespace opgraft::cuda_testing
