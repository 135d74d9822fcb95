// Operators for the tests of OpTester: some as they should be, some with one fault each.
#include <opgraft/op.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

using opgraft::Output;
using opgraft::Tensor;

OPGRAFT_TYPES(T, float, double, opgraft::Float16, opgraft::BFloat16, std::int32_t, bool);

// Right.

OPGRAFT_OP("test.tester::Scale")
    .Input<T>("x")
    .Output<T>("y")
    .Attribute<float>("factor", 2)
    .Shape(opgraft::SameAs("x"))
    .InPlace("x", "y")
    .Cpu([](auto x, auto y, float factor) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = static_cast<std::remove_cvref_t<decltype(y[i])>>(x[i] * factor);
      }
    });

OPGRAFT_OP("test.tester::Multiply")
    .Input<float>("a")
    .Input<float>("b")
    .Output<float>("c")
    .Shape(opgraft::MatrixProduct("a", "b"))
    .Cpu([](Tensor<const float> a, Tensor<const float> b, Tensor<float> c) {
      const auto rows = a.dimension(0);
      const auto inner = a.dimension(1);
      const auto columns = b.dimension(1);
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        c[i] = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          c[i] += a[i / columns * inner + k] * b[k * columns + i % columns];
        }
      }
    });

OPGRAFT_OP("test.tester::Shift")
    .Input<float>("x")
    .OptionalInput<float>("by")
    .Output<float>("y")
    .OptionalOutput<std::int64_t>("count")
    .Shape(opgraft::SameAs("x"), opgraft::Sizes({}))
    .Cpu([](Tensor<const float> x, std::optional<Tensor<const float>> by, Tensor<float> y,
            std::optional<Tensor<std::int64_t>> count) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + (by ? (*by)[0] : 1);
      if (count) (*count)[0] = static_cast<std::int64_t>(x.size());
    });

OPGRAFT_OP("test.tester::Repeat")
    .Input<std::string>("x")
    .Output<std::string>("y")
    .Attribute<std::int64_t>("times", 2)
    .Attribute<std::string>("between", "")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](Tensor<const std::string> x, Tensor<std::string> y, std::int64_t times,
            const std::string& between) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        for (std::int64_t time = 0; time < times; ++time) {
          if (time > 0) y[i] += between;
          y[i] += x[i];
        }
      }
    });

OPGRAFT_OP("test.tester::Count")  // the elements of each of its attributes
    .Input<float>("x")
    .Output<std::int64_t>("y")
    .Attribute<std::vector<float>>("floats")
    .Attribute<std::vector<std::int64_t>>("integers")
    .Attribute<opgraft::TensorValue>("tensor")
    .Shape([](opgraft::ShapeContext& context) {
      const auto floats = context.Attribute<std::vector<float>>("floats");
      const auto integers = context.Attribute<std::vector<std::int64_t>>("integers");
      if (floats && integers && floats->size() == 1 && integers->size() == 2) {
        context.SetOutput(0, {3});
      }
    })
    .Cpu([](Tensor<const float>, Output<std::int64_t> y, const std::vector<float>& floats,
            const std::vector<std::int64_t>& integers, const opgraft::TensorValue& tensor) {
      const Tensor<std::int64_t> made = y.Allocate({3});
      made[0] = static_cast<std::int64_t>(floats.size());
      made[1] = static_cast<std::int64_t>(integers.size());
      made[2] = static_cast<std::int64_t>(tensor.As<double>().size());
    });

OPGRAFT_OP("test.tester::Words")
    .Input<float>("x")
    .Output<std::string>("y")
    .Attribute<std::vector<std::string>>("words")
    .Cpu([](Tensor<const float>, Output<std::string> y, const std::vector<std::string>& words) {
      const Tensor<std::string> made = y.Allocate({static_cast<std::int64_t>(words.size())});
      std::copy(words.begin(), words.end(), made.begin());
    });

OPGRAFT_OP("test.tester::Fill")
    .Input<std::int64_t>("shape")
    .Output<float>("y")
    .Shape(opgraft::FromConstant("shape"))
    .Cpu([](Tensor<const std::int64_t>, Tensor<float> y) { std::fill(y.begin(), y.end(), 1.0F); });

OPGRAFT_OP("test.tester::Twice")  // gives twice as many rows
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x").With(0, opgraft::SizeOf("x", 0) * 2))
    .Cpu([](Tensor<const float> x, Tensor<float> y) {
      std::copy(x.begin(), x.end(), y.begin());
      std::copy(x.begin(), x.end(), y.begin() + x.size());
    });

OPGRAFT_OP("test.tester::Refuse")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](Tensor<const float>, Tensor<float>) {
      return opgraft::Status::Error("the matrix is singular");
    });

// With a fault.

OPGRAFT_OP("test.tester::Liar")  // gives one element, says as many as it gets
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](Tensor<const float> x, Output<float> y) { y.Allocate({1})[0] = x[0]; });

OPGRAFT_OP("test.tester::SymbolLiar")  // says [n+1] of what is [2*n], but of fixed sizes nothing
    .Input<float>("x")
    .Output<float>("y")
    .Shape([](opgraft::ShapeContext& context) {
      const auto shape = context.Input(std::size_t{0});
      if (shape && !(*shape)[0].IsKnown()) context.SetOutput(0, {(*shape)[0] + 1});
    })
    .Cpu([](Tensor<const float> x, Output<float> y) {
      const Tensor<float> made = y.Allocate({2 * x.dimension(0)});
      std::fill(made.begin(), made.end(), 1.0F);
    });

OPGRAFT_OP("test.tester::Aligned")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](Tensor<const float> x, Tensor<float> y) {
      std::copy(x.begin(), x.end(), y.begin());
      if (reinterpret_cast<std::uintptr_t>(x.data()) % 16 != 0) y[0] += 1;
    });

OPGRAFT_OP("test.tester::Crash")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](Tensor<const float> x, Tensor<float> y) {
      std::copy(x.begin(), x.end(), y.begin());
      if (reinterpret_cast<std::uintptr_t>(x.data()) % 16 != 0)
        *static_cast<volatile int*>(nullptr) = 1;
    });

class OnlyFed {
 public:
  explicit OnlyFed(const opgraft::KernelInfo& info) : is_constant_(info.Constant<float>(0)) {}
  opgraft::Status Compute(Tensor<const float> x, Tensor<float> y) const {
    if (is_constant_) return opgraft::Status::Error("it must be fed");
    std::copy(x.begin(), x.end(), y.begin());
    return opgraft::Status();
  }

 private:
  bool is_constant_;
};
OPGRAFT_OP("test.tester::OnlyFed")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu<OnlyFed>();

class Counter {
 public:
  void Compute(Tensor<const float> x, Tensor<float> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] + static_cast<float>(runs_);
    ++runs_;
  }

 private:
  mutable std::atomic<int> runs_ = 0;
};
OPGRAFT_OP("test.tester::Counter")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu<Counter>();

OPGRAFT_OP("test.tester::Vandal")  // writes to its input
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](Tensor<const float> x, Tensor<float> y) {
      std::copy(x.begin(), x.end(), y.begin());
      const_cast<float*>(x.data())[0] = 77;
    });

OPGRAFT_OP("test.tester::OutOfPlace")  // must not have been declared so
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .InPlace("x", "y")
    .Cpu([](Tensor<const float> x, Tensor<float> y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[x.size() - 1 - i];
    });
