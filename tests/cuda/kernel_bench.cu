// Times of the CUDA kernels on the device, by replays of a CUDA graph and by events.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "ops/contrib/gelu/gelu_cuda.h"
#include "ops/contrib/inverse/inverse_cuda.h"
#include "ops/contrib/inverse/inverse_parts.cuh"
#include "ops/contrib/trilu/trilu_cuda.h"
#include "tests/cuda/kernel_testing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

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

double Median(std::vector<double> values) {
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

template <class T>
void BenchGelu(Clock& clock, std::size_t count) {
  Memory<T> x(count), y(count);
  Fill(x.data(), count, Random<T>(1 << 20, 1));
  const Times copy = clock.Measure([&](CudaStream stream) {
    Require(
        cudaMemcpyAsync(y.data(), x.data(), count * sizeof(T), cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  });
  const Times ours = clock.Measure(
      [&](CudaStream stream) { Require(GeluCuda(x.data(), y.data(), count, stream), "GeluCuda"); });
  const double bytes = 2.0 * static_cast<double>(count * sizeof(T));
  std::printf("| %-8s | %9zu | %8.1f | %8.1f | %8.1f | %8.1f | %6.0f | %5.1f %% |\n", kNameOf<T>,
              count, ours.by_graph, ours.by_events, copy.by_graph, copy.by_events,
              bytes / ours.by_graph * 1e-3, 100 * copy.by_graph / ours.by_graph);
}

CUDA_BENCHMARK(Gelu) {
  std::printf(
      "\nGelu, us; GB/s and the share of a device copy's by the graph\n"
      "| type     |  elements |    graph |   events | copy, gr | copy, ev |   GB/s |   share |\n"
      "|---|---|---|---|---|---|---|---|\n");
  Clock clock;
  const std::size_t large = std::size_t{1} << (IsSmall() ? 20 : 28);
  BenchGelu<float>(clock, large);
  BenchGelu<Float16>(clock, large);
  BenchGelu<BFloat16>(clock, large);
  BenchGelu<double>(clock, large / 2);
  BenchGelu<float>(clock, 1024);
}

template <std::size_t kSize>
void BenchTrilu(Clock& clock, const TriluShape& shape) {
  const auto count = static_cast<std::size_t>(shape.batch * shape.rows * shape.columns) * kSize;
  Memory<char> x(count), y(count);
  Require(cudaMemset(x.data(), 1, count), "cudaMemset");
  const Times copy = clock.Measure([&](CudaStream stream) {
    Require(cudaMemcpyAsync(y.data(), x.data(), count, cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync");
  });
  const Times ours = clock.Measure([&](CudaStream stream) {
    Require(TriluCuda<kSize>(x.data(), y.data(), shape, 0, true, stream), "TriluCuda");
  });
  std::printf("| %6d x %5d x %5d | %zu | %8.1f | %8.1f | %8.1f |\n", static_cast<int>(shape.batch),
              static_cast<int>(shape.rows), static_cast<int>(shape.columns), kSize, ours.by_graph,
              ours.by_events, copy.by_graph);
}

CUDA_BENCHMARK(Trilu) {
  std::printf(
      "\nTrilu, upper, us; the copy is of all elements\n"
      "| matrices               | bytes | graph | events | copy, graph |\n"
      "|---|---|---|---|---|\n");
  Clock clock;
  BenchTrilu<4>(clock, {1, 16'384, 16'384});
  BenchTrilu<4>(clock, {1, 16'383, 16'383});
  BenchTrilu<2>(clock, {1, 16'384, 16'384});
  BenchTrilu<1>(clock, {1, 16'383, 16'383});
  BenchTrilu<8>(clock, {100, 1'000, 1'000});
  BenchTrilu<4>(clock, {100'000, 16, 16});
  BenchTrilu<4>(clock, {1'000'000, 5, 5});
}

template <class T>
using Invert = CudaError (*)(const T*, T*, std::size_t, std::size_t, const DeviceScratch&,
                             CudaStream);

template <class T>
void BenchInverse(Clock& clock, std::size_t n, std::size_t count, const char* note = "",
                  Invert<T> invert = InverseCuda<T>) {
  const std::size_t elements = n * n * count;
  Memory<T> x(elements), y(elements);
  Fill(x.data(), elements,
       Random<T>(n * n * std::min<std::size_t>(count, 1 + 1'000'000 / (n * n)), 1));
  SameScratch scratch;
  const Times ours = clock.Measure([&](CudaStream stream) {
    Require(invert(x.data(), y.data(), n, count, scratch.get(), stream), "InverseCuda");
  });
  const double bytes = 2.0 * static_cast<double>(elements * sizeof(T));
  const double operations = 2.0 * static_cast<double>(elements) * static_cast<double>(n);
  std::printf("| %-7s | %5zu | %7zu | %9.1f | %9.1f | %6.0f | %7.2f | %s |\n", kNameOf<T>, n, count,
              ours.by_graph, ours.by_events, bytes / ours.by_graph * 1e-3,
              operations / ours.by_graph * 1e-6, note);
  std::fflush(stdout);
}

CUDA_BENCHMARK(Inverse) {
  std::printf(
      "\nInverse, us; GB/s and TFLOP/s by the graph\n"
      "| type    |     n |   count |     graph |    events |   GB/s | TFLOP/s | |\n"
      "|---|---|---|---|---|---|---|---|\n");
  Clock clock;
  for (const std::size_t count : {20'000, 100'000}) {
    for (const std::size_t n : {2, 3, 4, 8, 12, 16, 24, 32, 48, 64}) {
      BenchInverse<float>(clock, n, count);
    }
  }
  for (const std::size_t n : {7, 15, 17, 31, 33, 63}) BenchInverse<float>(clock, n, 20'000);
  for (const std::size_t n : {4, 16, 32, 64}) BenchInverse<double>(clock, n, 20'000);
  for (const std::size_t n : {4, 16, 32, 64}) BenchInverse<Float16>(clock, n, 20'000);
  for (const std::size_t n : {96, 128, 192}) BenchInverse<float>(clock, n, 1'000);
  for (const std::size_t n : {8, 64, 128, 192, 256, 512, 1024, 2048})
    BenchInverse<float>(clock, n, 1);
  BenchInverse<float>(clock, 256, 100);
  BenchInverse<float>(clock, 1024, 4);
  BenchInverse<double>(clock, 1024, 1);
}

template <class T>
CudaError ByLibrary(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                    const DeviceScratch& scratch, CudaStream stream) {
  CudaError error = nullptr;
  if (!InvertByLibrary(matrices, inverses, n, count, scratch, stream, &error)) {
    return "cuSOLVER is not there";
  }
  return error;
}

/// From which size on the library is the faster one.
CUDA_BENCHMARK(Library) {
  std::printf(
      "\n| type    |     n |   count |     graph |    events |   GB/s | TFLOP/s | |\n"
      "|---|---|---|---|---|---|---|---|\n");
  Clock clock;
  for (const std::size_t n : {256, 1024, 2048, 3072, 4096}) {
    BenchInverse<float>(clock, n, 1, "ours", InvertInMemory<float>);
    BenchInverse<float>(clock, n, 1, "cuSOLVER", ByLibrary<float>);
  }
}

}  // namespace
}  // namespace opgraft::contrib
