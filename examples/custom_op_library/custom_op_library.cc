// The operators of PyTorch's tutorial on the ONNX registry: a sum, and a rounding to integers.
#include <opgraft/op.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

OPGRAFT_OP("test.customop::CustomOpOne")
    .Doc("The sum of two tensors of the same shape.")
    .Input<float>("x")
    .Input<float>("y", "a tensor of the shape of x")
    .Output<float>("z", "x + y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, auto z) {
      if (!std::ranges::equal(x.shape(), y.shape())) {
        return opgraft::Status::Model("x and y differ in shape");
      }
      for (std::size_t i = 0; i < x.size(); ++i) z[i] = x[i] + y[i];
      return opgraft::Status();
    });

OPGRAFT_OP("test.customop::CustomOpTwo")
    .Doc("Rounds to the nearest integers, halves to even, as torch.round and ONNX's Round do.")
    .Input<float>("x", "NaN becomes 0; numbers that int32 cannot hold are clamped")
    .Output<std::int32_t>("y", "x rounded")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float nearest = std::isnan(x[i]) ? 0.0F : std::nearbyint(x[i]);
        // 2147483520 is the largest float that an int32 can hold.
        y[i] = static_cast<std::int32_t>(std::clamp(nearest, -2147483648.0F, 2147483520.0F));
      }
    });
