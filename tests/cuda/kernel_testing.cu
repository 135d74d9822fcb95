// The program that tests the CUDA kernels: all tests, or with --small small ones, or with --bench
// the measurements. A name, or the beginning of one, picks some.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/cuda/kernel_testing.h"

namespace opgraft::cuda_testing {
namespace {

bool is_small = false;
int failures = 0;

std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}
std::vector<Test>& Benchmarks() {
  static std::vector<Test> benchmarks;
  return benchmarks;
}

}  // namespace

bool IsSmall() { return is_small; }

void Fail(const char* format, ...) {
  constexpr int kMostLines = 60;
  if (++failures > kMostLines) return;
  std::va_list arguments;
  va_start(arguments, format);
  std::printf("FAILED: ");
  std::vprintf(format, arguments);
  std::printf("\n");
  va_end(arguments);
}

void Require(contrib::CudaError error, const char* what) {
  if (error == nullptr) return;
  std::printf("FAILED: %s: %s\n", what, error);
  std::exit(1);
}

int AddTest(const Test& test) {
  Tests().push_back(test);
  return 0;
}
int AddBenchmark(const Test& test) {
  Benchmarks().push_back(test);
  return 0;
}

Scratch::~Scratch() {
  Require(cudaDeviceSynchronize(), "a kernel");
  for (void* const memory : memory_) Require(cudaFree(memory), "cudaFree");
}

void* Scratch::Allocate(void* self, std::size_t bytes) {
  auto& scratch = *static_cast<Scratch*>(self);
  if (!scratch.has_memory_) return nullptr;
  void* memory = nullptr;
  Require(cudaMalloc(&memory, bytes), "cudaMalloc");
  Require(cudaMemset(memory, 0xff, bytes), "cudaMemset");
  scratch.memory_.push_back(memory);
  return memory;
}

namespace {

int Main(int count, char** arguments) {
  bool is_bench = false;
  std::string_view name;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--small") {
      is_small = true;
    } else if (argument == "--bench") {
      is_bench = true;
    } else {
      name = argument;
    }
  }
  int run = 0;
  for (const Test& test : is_bench ? Benchmarks() : Tests()) {
    if (!std::string_view(test.name).starts_with(name)) continue;
    const int before = failures;
    test.run();
    ++run;
    if (!is_bench) std::printf("%s %s\n", failures == before ? "ok    " : "FAILED", test.name);
    std::fflush(stdout);
  }
  if (!is_bench) std::printf("%d tests, %d failures\n", run, failures);
  return failures != 0 || run == 0 ? 1 : 0;
}

}  // namespace
}  // namespace opgraft::cuda_testing

int main(int count, char** arguments) { return opgraft::cuda_testing::Main(count, arguments); }
