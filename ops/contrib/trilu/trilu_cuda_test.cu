// Tests Trilu on the GPU against Trilu on the CPU and against the definition.
#include <cinttypes>
#include <limits>

#include "ops/contrib/trilu/trilu_cuda.h"
#include "tests/cuda/kernel_testing.h"

namespace opgraft::contrib {
namespace {

using namespace opgraft::cuda_testing;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

bool Keeps(std::int64_t row, std::int64_t column, std::int64_t k, bool upper) {
  if (k > 1'000'000 || k < -1'000'000) return (k < 0) == upper;
  return upper ? column >= row + k : column <= row + k;
}

/// An element of kSize bytes.
template <std::size_t kSize>
struct Element {
  unsigned char bytes[kSize];
};

template <std::size_t kSize>
void Check(const TriluShape& shape, std::int64_t k) {
  const auto count = static_cast<std::size_t>(shape.batch * shape.rows * shape.columns);
  std::vector<Element<kSize>> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) {
      values[i].bytes[j] = static_cast<unsigned char>(1 + (i * kSize + j) % 255);
    }
  }
  for (const bool upper : {false, true}) {
    std::vector<Element<kSize>> right(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (Keeps(at / shape.columns % shape.rows, at % shape.columns, k, upper))
        right[i] = values[i];
    }
    for (const std::size_t offset : {0, 1, 3}) {
      for (const std::size_t other : {offset, offset + 1}) {
        DeviceValues<Element<kSize>> from(values, offset);
        DeviceValues<Element<kSize>> to(std::vector<Element<kSize>>(count), other);
        Require(TriluCuda<kSize>(from.data(), to.data(), shape, k, upper, nullptr), "TriluCuda");
        Require(cudaDeviceSynchronize(), "TriluCuda");
        const auto is_right = [&](DeviceValues<Element<kSize>>& y) {
          const auto read = y.Read();
          return count == 0 || std::memcmp(read.data(), right.data(), count * kSize) == 0;
        };
        const bool apart = is_right(to);
        Require(TriluCuda<kSize>(from.data(), from.data(), shape, k, upper, nullptr), "TriluCuda");
        if (!apart || !is_right(from)) {
          Fail("Trilu of %" PRId64 "x%" PRId64 "x%" PRId64
               " of %zu bytes at %zu and %zu, k %" PRId64 "%s%s",
               shape.batch, shape.rows, shape.columns, kSize, offset, other, k,
               upper ? ", upper" : ", lower", apart ? ", in place" : "");
        }
      }
    }
  }
}

template <std::size_t kSize>
void CheckAll() {
  const auto diagonals = IsSmall() ? std::vector<std::int64_t>{-2, 0, 1}
                                   : std::vector<std::int64_t>{-6, -2, -1, 0, 1, 2, 7, 20};
  for (const std::int64_t batch : {1, 3}) {
    for (const std::int64_t rows : {1, 2, 5}) {
      for (const std::int64_t columns : {1, 2, 3, 8, 19}) {
        for (const std::int64_t k : diagonals) Check<kSize>({batch, rows, columns}, k);
      }
    }
  }
  for (const TriluShape& shape :
       std::vector<TriluShape>{{300, 3, 5}, {1, 200, 3}, {2, 3, 1003}, {2, 90, 70}, {3, 64, 64}}) {
    for (const std::int64_t k : {0, 1, -1, 60, -60}) Check<kSize>(shape, k);
  }
  for (const std::int64_t k : {kLeast, kLeast + 1, kMost, kMost - 1, std::int64_t{1} << 40}) {
    Check<kSize>({2, 4, 6}, k);
  }
  for (const TriluShape& shape : std::vector<TriluShape>{{0, 2, 3}, {2, 0, 3}, {2, 3, 0}}) {
    Check<kSize>(shape, 1);
  }
}

CUDA_TEST(TriluKeepsWhatTheDefinitionKeeps) {
  CheckAll<1>();
  CheckAll<4>();
  if (IsSmall()) return;
  CheckAll<2>();
  CheckAll<8>();
  CheckAll<16>();
}

CUDA_TEST(TriluOfOtherSizes) {
  for (const std::int64_t k : {0, 2, -3}) {
    Check<2>({2, 9, 13}, k);
    Check<8>({2, 9, 13}, k);
    Check<16>({2, 9, 13}, k);
  }
}

// More elements than 32 bits can index.
CUDA_TEST(TriluTakesMoreThan32Bits) {
  if (IsSmall()) return;
  const TriluShape shape = {3, 40'000, 40'001};
  const auto count = static_cast<std::size_t>(shape.batch * shape.rows * shape.columns);
  unsigned char* x = nullptr;
  Require(cudaMalloc(&x, count), "cudaMalloc");
  Require(cudaMemset(x, 7, count), "cudaMemset");
  Require(TriluCuda<1>(x, x, shape, 5, true, nullptr), "TriluCuda");
  std::vector<unsigned char> y(count);
  Require(cudaMemcpy(y.data(), x, count, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::size_t at = 0;
  for (std::int64_t row = 0; row < shape.batch * shape.rows; ++row) {
    for (std::int64_t column = 0; column < shape.columns; ++column, ++at) {
      if (y[at] == (column >= row % shape.rows + 5 ? 7 : 0)) continue;
      Fail("Trilu of many elements: row %" PRId64 ", column %" PRId64, row, column);
      row = shape.batch * shape.rows;
      break;
    }
  }
  Require(cudaFree(x), "cudaFree");
}

}  // namespace
}  // namespace opgraft::contrib
