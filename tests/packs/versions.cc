// An operator that changed with version 3 of its domain.
#include <opgraft/op.h>

#include <algorithm>

OPGRAFT_OP("test.versions::Step")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float> y) { std::ranges::fill(y, 1); });

OPGRAFT_OP("test.versions::Step")
    .Since(3)
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<float>("value", 3)
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float> y, float value) {
      std::ranges::fill(y, value);
    });

OPGRAFT_OP("test.versions::Always")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
      std::ranges::copy(x, y.begin());
    });
