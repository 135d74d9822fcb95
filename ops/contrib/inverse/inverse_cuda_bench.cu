// Measures the CUDA kernels of Inverse on the device.
#include "ops/contrib/inverse/inverse_cuda.h"
#include "ops/contrib/inverse/inverse_parts.cuh"
#include "tests/cuda/kernel_timing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

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
    return "cuSOLVER is not installed";
  }
  return error;
}

/// Shows from which size on the library is faster.
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
