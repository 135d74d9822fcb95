// Operators in ONNX Runtime's own domains, with results that differ from the runtime's.
#include <opgraft/op.h>

namespace {

struct Add {
  float step;
  void operator()(opgraft::Tensor<const float> x, opgraft::Tensor<float> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + step;
  }
};

}  // namespace

OPGRAFT_OP("com.microsoft::QuickGelu")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<float>("alpha", 1)
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, float) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + 100;
    });
OPGRAFT_OP("com.microsoft::OnlyOurs")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(Add{200});
OPGRAFT_OP("ai.onnx::Softsign")
    .Since(22)
    .Input<float>("input")
    .Output<float>("output")
    .Shape(opgraft::SameAs("input"))
    .Cpu(Add{300});
OPGRAFT_OP("ai.onnx::Softplus")
    .Input<float>("X")
    .Output<float>("Y")
    .Shape(opgraft::SameAs("X"))
    .Cpu(Add{400});
