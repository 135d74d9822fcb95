// Operators of several types: one template for many, strings, other types out than in, any type.
#include <opgraft/op.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>

OPGRAFT_TYPES(T, float, double, opgraft::Float16, opgraft::BFloat16, std::int8_t, std::int16_t,
              std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
              std::uint64_t);

OPGRAFT_OP("test.pack::Double")
    .Doc("Adds a tensor to itself.")
    .Input<T>("x", "any numbers")
    .Output<T>("y", "twice as much")
    .Shape(opgraft::SameAs("x"))
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Tensor<E> y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<E>(x[i] + x[i]);
    });

OPGRAFT_OP("test.pack::Not")
    .Input<bool>("x")
    .Output<bool>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const bool> x, opgraft::Tensor<bool> y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = !x[i];
    });

// A plain function.
static void Reverse(opgraft::Tensor<const std::string> x, opgraft::Tensor<std::string> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i].assign(x[i].rbegin(), x[i].rend());
}

OPGRAFT_OP("test.pack::Reverse")
    .Doc("The bytes of each string from the last to the first.")
    .Input<std::string>("x")
    .Output<std::string>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(&Reverse);

OPGRAFT_OP("test.pack::Length")
    .Input<std::string>("x")
    .Output<std::int64_t>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const std::string> x, opgraft::Tensor<std::int64_t> y) {
      std::transform(x.begin(), x.end(), y.begin(), [](const std::string& text) {
        return static_cast<std::int64_t>(text.size());
      });
    });

OPGRAFT_TYPES(Real, float, double);
OPGRAFT_TYPES(Index, std::int32_t, std::int64_t);
OPGRAFT_TYPES(Item, float, double, std::string);

// A function template, named once for each type.
template <class E>
void Round(opgraft::Tensor<const E> x, opgraft::Tensor<std::int32_t> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<std::int32_t>(x[i]);
}

OPGRAFT_OP("test.pack::Round")
    .Input<Real>("x")
    .Output<std::int32_t>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu(&Round<float>)
    .Cpu(&Round<double>);

// A class template, over two variables in the order in which they are used.
template <class I, class E>
class Take {
 public:
  opgraft::Status Compute(opgraft::Tensor<const I> index, opgraft::Tensor<const E> x,
                          opgraft::Tensor<E> y) const {
    for (std::size_t i = 0; i < index.size(); ++i) {
      if (index[i] < 0 || static_cast<std::size_t>(index[i]) >= x.size()) {
        return opgraft::Status::Error("index " + std::to_string(index[i]) + " is outside of " +
                                      std::to_string(x.size()) + " elements");
      }
      y[i] = x[static_cast<std::size_t>(index[i])];
    }
    return opgraft::Status();
  }
};

OPGRAFT_OP("test.pack::Take")
    .Input<Index>("index")
    .Input<Item>("x")
    .Output<Item>("y")
    .Shape(opgraft::SameAs("index"))
    .Cpu<Take>();

OPGRAFT_OP("test.pack::Describe")
    .Doc("The number of each input's type, its rank, and the length of its first string.")
    .VariadicInput<opgraft::Any>("inputs")
    .Output<std::int64_t>("y")
    .Cpu([](opgraft::AnyTensors inputs, opgraft::Output<std::int64_t> y) {
      const auto tensor = y.Allocate({static_cast<std::int64_t>(inputs.size()), 3});
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        tensor[3 * i] = inputs[i].element_type();
        tensor[3 * i + 1] = static_cast<std::int64_t>(inputs[i].shape().size());
        tensor[3 * i + 2] = -1;
        if (inputs[i].Is<std::string>() && inputs[i].As<std::string>().size() > 0) {
          tensor[3 * i + 2] = static_cast<std::int64_t>(inputs[i].As<std::string>()[0].size());
        }
      }
    });

OPGRAFT_OP("test.pack::AsFloat")
    .Doc("Takes any type, and says so where it is none that it knows.")
    .Input<opgraft::Any>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::AnyTensor x, opgraft::Tensor<float> y) {
      if (x.Is<std::int64_t>()) {
        std::ranges::copy(x.As<std::int64_t>(), y.begin());
      } else {
        std::ranges::copy(x.As<float>(), y.begin());
      }
    });
