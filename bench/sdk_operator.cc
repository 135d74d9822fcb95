// y = x + 1 in float32, written with the SDK.
#include <opgraft/op.h>

OPGRAFT_OP("by.sdk::PlusOne")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + 1;
    });
