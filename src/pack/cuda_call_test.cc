// Tests of kernels for CUDA that are called through the C contract, with device memory that the CPU
// cannot read.
#include <gtest/gtest.h>
#include <opgraft/op.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace {

/// What a kernel was called with.
struct Seen {
  const void* x = nullptr;
  const void* y = nullptr;
  const void* scratch = nullptr;
  CUstream_st* stream = nullptr;
  std::size_t size = 0;
  std::int64_t k = 0;
  std::string text;
} seen;

}  // namespace

OPGRAFT_TYPES(T, float, double, std::string);

OPGRAFT_OP("cuda_unit::Shift")
    .Input<T>("x")
    .OptionalInput<opgraft::OnHost<std::int64_t>>("k")
    .Output<T>("y")
    .Attribute<float>("factor", 2)
    .Shape(opgraft::SameAs("x"))
    .InPlace("x", "y")
    .Cpu([](auto, auto, auto, float) {})
    .Cuda([](opgraft::Context& context, opgraft::DeviceTensor<const float> x,
             std::optional<opgraft::Tensor<const std::int64_t>> k, opgraft::DeviceTensor<float> y,
             float factor) {
      const auto scratch = context.Scratch<float>(x.size());
      seen = {x.data(), y.data(),         scratch.data(),        context.stream(),
              y.size(), k ? (*k)[0] : -1, std::to_string(factor)};
    })
    .Cuda([](auto x, auto, auto, float) {
      static_assert(std::is_same_v<decltype(x), opgraft::DeviceTensor<const double>>);
      throw opgraft::KernelError("the GPU is on fire");
    });

namespace {

/// A kernel class with everything that a class may have.
template <class E>
class Gather {
 public:
  explicit Gather(const opgraft::KernelInfo& info) {
    if (info.FindAttribute<std::int64_t>("read") != nullptr) (void)info.Constant<std::int64_t>(1);
  }
  opgraft::Status Compute(opgraft::DeviceTensor<const E> x,
                          opgraft::DeviceTensor<const std::int64_t> /*indices*/,
                          opgraft::DeviceOutput<E> y) const {
    const opgraft::DeviceTensor<E> made = y.Allocate({5});
    seen.x = x.data();
    seen.y = made.data();
    seen.size = made.size();
    return opgraft::Status();
  }
};
OPGRAFT_TYPES(U, float, double);

}  // namespace

OPGRAFT_OP("cuda_unit::Gather")
    .Input<U>("x")
    .Input<std::int64_t>("indices")
    .Output<U>("y")
    .OptionalAttribute<std::int64_t>("read")
    .Cuda<Gather>();

OPGRAFT_OP("cuda_unit::Zeros")
    .Input<std::int64_t>("shape")
    .Output<float>("y")
    .Shape(opgraft::FromConstant("shape"))
    .Cuda([](auto, auto y) { seen.size = y.size(); });

OPGRAFT_OP("cuda_unit::ZerosOnHost")
    .Input<opgraft::OnHost<std::int64_t>>("shape")
    .Output<float>("y")
    .Shape(opgraft::FromConstant("shape"))
    .Cuda([](auto, auto y) { seen.size = y.size(); });

OPGRAFT_OP("cuda_unit::Many")
    .Input<opgraft::Any>("first")
    .VariadicInput<float>("rest")
    .VariadicOutput<float>("y")
    .Shape(opgraft::SameAs("rest"))
    .Cuda([](opgraft::AnyDeviceTensor first, opgraft::DeviceTensors<const float> rest,
             opgraft::DeviceTensors<float> y) {
      seen.x = first.As<double>().data();
      seen.size = rest.size() * 10 + y.size();
      seen.y = y[0].data();
    });

namespace {

constexpr std::size_t kPage = 4096;

/// Memory that faults when the CPU reads it.
void* DeviceMemory() {
  static void* const memory =
      mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory;
}
void* At(std::size_t page) { return static_cast<std::byte*>(DeviceMemory()) + page * kPage; }

const OpgraftOperator& Find(const char* name) {
  const OpgraftPack* const pack = opgraft_pack();
  for (std::size_t i = 0; i < pack->operator_count; ++i) {
    const OpgraftOperator& one = *pack->operators[i];
    if (std::strcmp(one.domain, "cuda_unit") == 0 && std::strcmp(one.name, name) == 0) return one;
  }
  ADD_FAILURE() << name;
  return *pack->operators[0];
}

struct Node : OpgraftNode {
  Node(std::size_t inputs, std::size_t outputs)
      : OpgraftNode{&kTable}, input_count(inputs), output_count(outputs) {}
  static Node& Self(OpgraftNode* node) { return *static_cast<Node*>(node); }
  static const OpgraftNodeTable kTable;

  std::size_t input_count;
  std::size_t output_count;
  std::int64_t read = 0;  ///< the value of the attribute "read"; 0 if it is absent
  std::string text;
};

const OpgraftNodeTable Node::kTable = {
    .fail =
        [](OpgraftNode* node, const OpgraftError* error) {
          Self(node).text.assign(error->text.data, error->text.size);
        },
    .name = [](OpgraftNode*) -> OpgraftText { return {"n", 1}; },
    .input_count = [](OpgraftNode* node) { return Self(node).input_count; },
    .output_count = [](OpgraftNode* node) { return Self(node).output_count; },
    .input_type = [](OpgraftNode*, std::size_t, std::int32_t*) { return 0; },
    .attribute =
        [](OpgraftNode* node, const char* name, std::int32_t kind, OpgraftAttribute* read) {
          *read = {};
          if (std::strcmp(name, "read") == 0 && Self(node).read != 0) {
            read->kind = kind;
            read->count = 1;
            read->integers = &Self(node).read;
          }
          return 0;
        },
    .constant =
        [](OpgraftNode*, std::size_t, OpgraftTensor* tensor) {
          static const std::int64_t size = 1;
          *tensor = {At(3), &size, 1, 7};
          return 0;
        }};

struct Call : OpgraftCall {
  Call() : OpgraftCall{&kTable} {}
  static Call& Self(OpgraftCall* call) { return *static_cast<Call*>(call); }
  static const OpgraftCallTable kTable;

  std::vector<OpgraftTensor> inputs;
  std::int64_t size = 3;
  std::int32_t output_type = 1;
  std::string text;
};

const OpgraftCallTable Call::kTable = {
    .fail =
        [](OpgraftCall* call, const OpgraftError* error) {
          Self(call).text.assign(error->text.data, error->text.size);
        },
    .input =
        [](OpgraftCall* call, std::size_t index, OpgraftTensor* tensor) {
          *tensor = Self(call).inputs[index];
          return 0;
        },
    .output =
        [](OpgraftCall* call, std::size_t, const std::int64_t* shape, std::size_t rank,
           OpgraftTensor* tensor) {
          *tensor = {At(1), shape, rank, Self(call).output_type};
          return 0;
        },
    .store_texts = nullptr,
    .scratch =
        [](OpgraftCall*, std::size_t, void** memory) {
          *memory = At(2);
          return 0;
        },
    .parallel_for = nullptr,
    .log = nullptr,
    .stream =
        [](OpgraftCall*, void** stream) {
          *stream = reinterpret_cast<void*>(0x5);
          return 0;
        }};

/// Runs a kernel once. Returns its error message, "" if it succeeds.
std::string RunKernel(const OpgraftKernel& kernel, Node node, Call* call) {
  void* state = nullptr;
  if (kernel.create(&kernel, &node, &state) != 0) return node.text;
  const int failed = kernel.compute(state, call);
  kernel.destroy(state);
  return failed == 0 ? "" : call->text;
}

TEST(CudaKernel, IsDeclaredForTheTypesThatItTakes) {
  ASSERT_EQ(opgraft_pack()->problem, nullptr);
  const OpgraftOperator& shift = Find("Shift");
  std::vector<std::string> kernels;
  for (std::size_t i = 0; i < shift.kernel_count; ++i) {
    const OpgraftKernel& kernel = *shift.kernels[i];
    kernels.push_back(kernel.device + std::to_string(kernel.types[0]));
    if (std::strcmp(kernel.device, "cpu") == 0) {
      EXPECT_EQ(kernel.host_inputs, nullptr);
    } else {
      ASSERT_NE(kernel.host_inputs, nullptr);
      EXPECT_EQ(kernel.host_inputs[0], 0);
      EXPECT_EQ(kernel.host_inputs[1], 1);
    }
  }
  EXPECT_EQ(kernels, (std::vector<std::string>{"cpu1", "cpu11", "cpu8", "cuda1", "cuda11"}));
  EXPECT_EQ(shift.in_place_count, 1U);
}

TEST(CudaKernel, GetsDeviceMemoryAndTheStream) {
  const OpgraftKernel& kernel = *Find("Shift").kernels[3];
  std::int64_t k = 7;
  Call call;
  call.inputs = {{At(0), &call.size, 1, 1}, {&k, nullptr, 0, 7}};
  EXPECT_EQ(RunKernel(kernel, Node(2, 1), &call), "");
  EXPECT_EQ(seen.x, At(0));
  EXPECT_EQ(seen.y, At(1));
  EXPECT_EQ(seen.scratch, At(2));
  EXPECT_EQ(seen.stream, reinterpret_cast<CUstream_st*>(0x5));
  EXPECT_EQ(seen.size, 3U);
  EXPECT_EQ(seen.k, 7);
  EXPECT_EQ(seen.text, "2.000000");
  call.inputs.pop_back();
  EXPECT_EQ(RunKernel(kernel, Node(1, 1), &call), "");
  EXPECT_EQ(seen.k, -1);
}

TEST(CudaKernel, AllocatesOutputs) {
  const OpgraftKernel& kernel = *Find("Gather").kernels[0];
  Call call;
  call.inputs = {{At(0), &call.size, 1, 1}, {At(3), &call.size, 1, 7}};
  EXPECT_EQ(RunKernel(kernel, Node(2, 1), &call), "");
  EXPECT_EQ(seen.x, At(0));
  EXPECT_EQ(seen.y, At(1));
  EXPECT_EQ(seen.size, 5U);
}

TEST(CudaKernel, TakesInputsOfAnyTypeAndVariadicOnes) {
  const OpgraftKernel& kernel = *Find("Many").kernels[0];
  Call call;
  call.inputs = {{At(3), &call.size, 1, 11}, {At(0), &call.size, 1, 1}, {At(0), &call.size, 1, 1}};
  EXPECT_EQ(RunKernel(kernel, Node(3, 2), &call), "");
  EXPECT_EQ(seen.x, At(3));
  EXPECT_EQ(seen.y, At(1));
  EXPECT_EQ(seen.size, 22U);
  call.inputs[0].element_type = 8;
  EXPECT_EQ(RunKernel(kernel, Node(3, 2), &call),
            "it threw a C++ exception: input 0 has strings, which cannot be on a GPU");
}

TEST(CudaKernel, ElementsOnTheGpuAreNotRead) {
  Call call;
  call.size = 1;
  call.inputs = {{At(0), &call.size, 1, 7}};
  EXPECT_EQ(
      RunKernel(*Find("Zeros").kernels[0], Node(1, 1), &call),
      "the shape rule reads the elements of input 'shape', which are on the GPU. Fix: declare "
      "it with opgraft::OnHost, as .Input<opgraft::OnHost<std::int64_t>>(\"shape\")");
  std::int64_t elements = 6;
  call.inputs[0].data = &elements;
  EXPECT_EQ(RunKernel(*Find("ZerosOnHost").kernels[0], Node(1, 1), &call), "");
  EXPECT_EQ(seen.size, 6U);
  Node node(2, 1);
  node.read = 1;
  EXPECT_EQ(RunKernel(*Find("Gather").kernels[0], node, &call),
            "the kernel reads the elements of input 'indices', which are on the GPU. Fix: declare "
            "it with opgraft::OnHost, as .Input<opgraft::OnHost<std::int64_t>>(\"indices\")");
}

TEST(CudaKernel, TheTextOfAKernelErrorIsUnchanged) {
  Call call;
  call.inputs = {{At(0), &call.size, 1, 11}};
  call.output_type = 11;
  EXPECT_EQ(RunKernel(*Find("Shift").kernels[4], Node(1, 1), &call), "the GPU is on fire");
}

}  // namespace
