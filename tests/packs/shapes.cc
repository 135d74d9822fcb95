// Operators with each of the shape rules. Their kernels number the elements that they are given.
#include <opgraft/op.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>

namespace {

/// Takes any inputs, one output and any attributes.
struct Number {
  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    (Fill(arguments), ...);
  }

 private:
  static void Fill(const opgraft::Tensor<float>& y) { std::iota(y.begin(), y.end(), 0.0F); }
  template <class Other>
  static void Fill(const Other&) {}
};

}  // namespace

OPGRAFT_OP("test.pack::ShapeSame")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeBroadcast")
    .Input<float>("a")
    .Input<float>("b")
    .Input<float>("other")
    .Output<float>("y")
    .Shape(opgraft::Broadcast({"a", "b"}))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeProduct")
    .Input<float>("a")
    .Input<float>("b")
    .Output<float>("y")
    .Shape(opgraft::MatrixProduct("a", "b"))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeAttribute")
    .Output<float>("y")
    .Attribute<std::vector<std::int64_t>>("sizes", {2, 3})
    .Shape(opgraft::FromAttribute("sizes"))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeConstant")
    .Input<std::int64_t>("sizes")
    .Output<float>("y")
    .Shape(opgraft::FromConstant("sizes"))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeWithout")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x").Without(-1))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeConcat")
    .Input<float>("a")
    .Input<float>("b")
    .Output<float>("y")
    .Shape(opgraft::SameAs("a").With(-1, opgraft::SizeOf("a", -1) + opgraft::SizeOf("b", -1)))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeOuter")
    .Input<float>("a")
    .Input<float>("b")
    .Output<float>("y")
    .Shape(opgraft::SameAs("a").WithoutLast(1).Then(opgraft::SameAs("b").Last(1)))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeSizes")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::int64_t>("k", 5)
    .Shape(opgraft::Sizes({opgraft::SizeOf("x", 0) * 2, opgraft::SizeFrom("k"),
                           (opgraft::SizeOf("x", 1) - 1) / 2, 1}))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeScalar")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::Sizes({}))
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeOptional")
    .Doc("The second output has the shape of an input that need not be there.")
    .Input<float>("x")
    .OptionalInput<float>("mask")
    .Output<float>("y")
    .OptionalOutput<float>("z")
    .Shape(opgraft::SameAs("x"), opgraft::SameAs("mask"))
    .Cpu([](opgraft::Tensor<const float>, std::optional<opgraft::Tensor<const float>>,
            opgraft::Tensor<float> y, std::optional<opgraft::Tensor<float>> z) {
      Number()(y);
      if (z) Number()(*z);
    });

// A free function.
static void Window(opgraft::ShapeContext& context) {
  const auto x = context.Input("x");
  if (!x) return;
  if (x->size() != 2)
    throw opgraft::ShapeError("expected a matrix, its rank is " + std::to_string(x->size()));
  const auto mode = context.Attribute<std::string>("mode").value_or("same");
  const auto width = context.Attribute<std::int64_t>("width").value_or(1);
  const auto steps = context.Attribute<std::vector<std::int64_t>>("steps").value();
  const auto ratio = context.Attribute<float>("ratio").value();
  const opgraft::Dim rows = mode == "valid" ? (*x)[0] - opgraft::Dim(width - 1) : (*x)[0];
  context.SetOutput(0, {rows, opgraft::Dim(steps.at(0)), opgraft::Dim(std::int64_t(ratio))});
}

OPGRAFT_OP("test.pack::ShapeFunction")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::string>("mode", "same")
    .Attribute<std::int64_t>("width", 1)
    .Attribute<std::vector<std::int64_t>>("steps", {4})
    .Attribute<float>("ratio", 2)
    .Shape(&Window)
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeThrows")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::string>("how", "exception")
    .Shape([](opgraft::ShapeContext& context) {
      const auto how = *context.Attribute<std::string>("how");
      if (how == "exception") throw std::runtime_error("the rule is out of order");
      if (how == "int") throw 3;
      if (how == "beyond") context.SetOutput(5, {1});
      if (how == "undeclared") static_cast<void>(context.Attribute<float>("nobody"));
      if (how == "negative") context.SetOutput(0, {opgraft::Dim(0) - opgraft::Dim(2)});
      if (how == "unknown") context.SetOutput(0, {opgraft::Dim()});
      if (how == "large") {
        context.SetOutput(0, {opgraft::Dim(INT64_MAX), opgraft::Dim(INT64_MAX)});
      }
      if (how == "zero") context.SetOutput(0, {opgraft::Dim(INT64_MAX), opgraft::Dim(2), 0});
    })
    .Cpu(Number());

OPGRAFT_OP("test.pack::ShapeGrowing")
    .Doc("Of a chain of these, the symbol would have 2 to the power of its length letters.")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::Sizes({opgraft::SizeOf("x", 0) + opgraft::SizeOf("x", 0) -
                           opgraft::SizeOf("x", 0)}))
    .Cpu(Number());
