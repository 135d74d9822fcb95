// Measures the CUDA kernels of Trilu on the device.
#include "ops/contrib/trilu/trilu_cuda.h"
#include "tests/cuda/kernel_timing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

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

}  // namespace
}  // namespace opgraft::contrib
