// The kernels of the example examples/custom_op_library on the GPU.
#include <algorithm>
#include <cmath>
#include <limits>

#include "examples/custom_op_library/custom_op_library_cuda.h"
#include "tests/cuda/kernel_testing.h"

namespace {

using namespace opgraft::cuda_testing;

constexpr std::size_t kCounts[] = {0, 1, 255, 256, 257, 10'001};

CUDA_TEST(CustomOpOneAdds) {
  for (const std::size_t count : kCounts) {
    const auto a = Random<float>(count, 1);
    const auto b = Random<float>(count, 2);
    DeviceValues<float> x(a, 1), y(b), z(std::vector<float>(count, 77), 3);
    Require(AddOnGpu(x.data(), y.data(), z.data(), count, nullptr), "AddOnGpu");
    const auto sums = z.Read();
    for (std::size_t i = 0; i < count; ++i) {
      if (sums[i] != a[i] + b[i]) Fail("CustomOpOne of %zu: element %zu", count, i);
    }
  }
}

CUDA_TEST(CustomOpTwoRounds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::size_t count : kCounts) {
    auto a = Random<float>(count, 3);
    for (float& value : a) value *= 1000;
    const std::vector<float> special = {0.5F,      1.5F,       -0.5F, -2.5F, NAN,
                                        kInfinity, -kInfinity, 3e9F,  -3e9F, 2147483520.0F};
    if (count > special.size()) std::copy(special.begin(), special.end(), a.begin());
    DeviceValues<float> x(a);
    DeviceValues<std::int32_t> y(std::vector<std::int32_t>(count, 77), 1);
    Require(RoundOnGpu(x.data(), y.data(), count, nullptr), "RoundOnGpu");
    const auto rounded = y.Read();
    for (std::size_t i = 0; i < count; ++i) {
      const float nearest = std::isnan(a[i]) ? 0.0F : std::nearbyint(a[i]);
      const auto right =
          static_cast<std::int32_t>(std::clamp(nearest, -2147483648.0F, 2147483520.0F));
      if (rounded[i] != right) Fail("CustomOpTwo of %g: %d", a[i], rounded[i]);
    }
  }
}

}  // namespace
