// Operators with kernels for a real GPU, under the names of those for the fake one.
#include <opgraft/cuda.h>
#include <opgraft/op.h>

#include <stdexcept>

OPGRAFT_TYPES(T, float, double, std::int64_t, std::int32_t, bool, opgraft::Float16,
              opgraft::BFloat16);

namespace {

constexpr unsigned kThreads = 256;

unsigned Blocks(std::size_t size) { return static_cast<unsigned>((size + kThreads - 1) / kThreads); }

template <class E>
__global__ void Copy(const E* from, E* to, std::size_t size) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) to[i] = from[i];
}

/// Takes `cycles` before it begins, so that what is not ordered comes too early.
__global__ void Scale(const float* from, float* to, std::size_t size, float factor, float more,
                      long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) to[i] = from[i] * factor + more;
}

}  // namespace

OPGRAFT_OP("test.cuda::Copy")
    .Input<T>("x")
    .Output<T>("y")
    .Shape(opgraft::SameAs("x"))
    .Cuda([]<class E>(opgraft::Context& context, opgraft::DeviceTensor<const E> x,
                      opgraft::DeviceTensor<E> y) {
      if (x.size() == 0) return;
      Copy<<<Blocks(x.size()), kThreads, 0, context.stream()>>>(x.data(), y.data(), x.size());
      OPGRAFT_CUDA_LAUNCHED();
    });

OPGRAFT_OP("test.cuda::Twice")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<std::int64_t>("cycles", 0)
    .Shape(opgraft::SameAs("x"))
    .Cpu([](auto x, auto y, std::int64_t) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * 2 + 1;
    })
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             opgraft::DeviceTensor<float> y, std::int64_t cycles) {
      if (x.size() == 0) return;
      Scale<<<Blocks(x.size()), kThreads, 0, context.stream()>>>(x.data(), y.data(), x.size(), 2, 0,
                                                                 cycles);
      OPGRAFT_CUDA_LAUNCHED();
    });

OPGRAFT_OP("test.cuda::AddNumber")
    .Input<float>("x")
    .Input<opgraft::OnHost<std::int64_t>>("number")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             opgraft::Tensor<const std::int64_t> number, opgraft::DeviceTensor<float> y) {
      Scale<<<Blocks(x.size()), kThreads, 0, context.stream()>>>(
          x.data(), y.data(), x.size(), 1, static_cast<float>(number[0]), 0);
      OPGRAFT_CUDA_LAUNCHED();
    });

OPGRAFT_OP("test.cuda::ThroughScratch")
    .Input<float>("x")
    .Output<float>("y")
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             opgraft::DeviceOutput<float> output) {
      const auto y = output.Allocate(x.shape());
      const auto scratch = context.Scratch<float>(x.size());
      const unsigned blocks = Blocks(x.size());
      Copy<<<blocks, kThreads, 0, context.stream()>>>(x.data(), scratch.data(), x.size());
      Copy<<<blocks, kThreads, 0, context.stream()>>>(static_cast<const float*>(scratch.data()),
                                                      y.data(), x.size());
      OPGRAFT_CUDA_LAUNCHED();
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
