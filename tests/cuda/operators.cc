// Operators with kernels for the CPU and for the fake GPU.
#include <opgraft/op.h>

#include <stdexcept>

#include "fake_kernel.h"

OPGRAFT_TYPES(T, float, double, std::int64_t, std::int32_t, bool, opgraft::Float16);

OPGRAFT_OP("test.cuda::Copy")
    .Input<T>("x")
    .Output<T>("y")
    .Shape(opgraft::SameAs("x"))
    .Cuda([]<class E>(opgraft::Context& context, opgraft::DeviceTensor<const E> x,
                      opgraft::DeviceTensor<E> y) {
      const E* const from = fake::Alias(x.data());
      E* const to = fake::Alias(y.data());
      fake::Launch(context.stream(), [=, size = x.size()] {
        for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
      });
    });

/// On the CPU it adds 1 more, which tells where it has run.
OPGRAFT_OP("test.cuda::Twice")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * 2 + 1;
    })
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             opgraft::DeviceTensor<float> y) {
      const float* const from = fake::Alias(x.data());
      float* const to = fake::Alias(y.data());
      fake::Launch(context.stream(), [=, size = x.size()] {
        for (std::size_t i = 0; i < size; ++i) to[i] = from[i] * 2;
      });
    });

OPGRAFT_OP("test.cuda::AddNumber")
    .Input<float>("x")
    .Input<opgraft::OnHost<std::int64_t>>("number")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             opgraft::Tensor<const std::int64_t> number, opgraft::DeviceTensor<float> y) {
      const float* const from = fake::Alias(x.data());
      float* const to = fake::Alias(y.data());
      const auto more = static_cast<float>(number[0]);
      fake::Launch(context.stream(), [=, size = x.size()] {
        for (std::size_t i = 0; i < size; ++i) to[i] = from[i] + more;
      });
    });

OPGRAFT_OP("test.cuda::ThroughScratch")
    .Input<float>("x")
    .Output<float>("y")
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             opgraft::DeviceOutput<float> output) {
      const auto y = output.Allocate(x.shape());
      const auto scratch = context.Scratch<float>(x.size());
      const float* const from = fake::Alias(x.data());
      float* const middle = fake::Alias(scratch.data());
      float* const to = fake::Alias(y.data());
      const std::size_t size = x.size();
      fake::Launch(context.stream(), [=] {
        for (std::size_t i = 0; i < size; ++i) middle[i] = from[i];
      });
      fake::Launch(context.stream(), [=] {
        for (std::size_t i = 0; i < size; ++i) to[i] = middle[i];
      });
    });

OPGRAFT_OP("test.cuda::Fail")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::int64_t>("throws", 0)
    .Shape(opgraft::SameAs("x"))
    .Cuda([](opgraft::DeviceTensor<const float>, opgraft::DeviceTensor<float>,
             std::int64_t throws) -> opgraft::Status {
      if (throws != 0) throw std::runtime_error("no luck");
      return opgraft::Status::Error("no such luck");
    });
