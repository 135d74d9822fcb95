// The operators for the tests of loaded packs, in a domain that other packs use too.
#include <opgraft/op.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

OPGRAFT_TYPES(T, float, double, opgraft::Float16, opgraft::BFloat16);

OPGRAFT_OP("test.packs::Scale")
    .Doc("Multiplies a tensor by a number.")
    .Input<T>("x", "any tensor")
    .Output<T>("y", "x times factor")
    .Attribute<float>("factor", 2)
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, float factor) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = static_cast<std::remove_cvref_t<decltype(y[i])>>(static_cast<float>(x[i]) * factor);
      }
    });

OPGRAFT_OP("test.packs::Shout")
    .Input<std::string>("x")
    .Output<std::string>("y")
    .Attribute<std::vector<std::string>>("ends", {"!"})
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, const std::vector<std::string>& ends) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::string text(x[i]);
        for (const std::string& end : ends) text += end;
        y[i] = text;
      }
    });

OPGRAFT_OP("test.packs::Shift")
    .Input<float>("x")
    .OptionalInput<float>("bias")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto bias, auto y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + (bias ? (*bias)[i] : 1000);
    });

OPGRAFT_OP("test.packs::Repeat")
    .Doc("Repeats a vector a number of times, which may be known when the model is loaded.")
    .Input<float>("x")
    .Input<std::int64_t>("times")
    .Output<float>("y")
    .Shape([](opgraft::ShapeContext& context) {
      const auto x = context.Input(0);
      const auto times = context.Integers(1);
      opgraft::Shape shape(1);
      if (x && x->size() == 1 && times && times->size() == 1) shape[0] = (*x)[0] * (*times)[0];
      context.SetOutput(0, shape);
    })
    .Cpu([](auto x, auto, auto y) {
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i % x.size()];
    });

OPGRAFT_OP("test.packs::Fail")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::string>("text")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto, auto, const std::string& text) { return opgraft::Status::Error(text); });

namespace {

/// y = x + step.
struct Add {
  float step;
  void operator()(opgraft::Tensor<const float> x, opgraft::Tensor<float> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + step;
  }
};

}  // namespace

OPGRAFT_OP("test.packs::Step")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(Add{1});
OPGRAFT_OP("test.packs::Step")
    .Since(3)
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(Add{3});
OPGRAFT_OP("test.packs::Step")
    .Since(5)
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<float>("more", 0)
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, float more) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + 5 + more;
    });

OPGRAFT_OP("test.packs::Late")
    .Since(4)
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(Add{40});
