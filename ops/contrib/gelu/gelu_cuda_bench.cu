// Measures the CUDA kernels of Gelu on the device.
#include "ops/contrib/gelu/gelu_cuda.h"
#include "tests/cuda/kernel_timing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

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

}  // namespace
}  // namespace opgraft::contrib
