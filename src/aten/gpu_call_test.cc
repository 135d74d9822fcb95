// Tests of calls on a GPU, with a fake libtorch: which memory it is given, and which not.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "aten/fake_libtorch_test.h"
#include "aten/gpu_rules.h"

namespace opgraft::aten {
namespace {

constexpr std::int32_t kCuda = 1;
constexpr std::int32_t kIndex = 3;

/// Memory that faults when it is touched.
void* const kFaulting = reinterpret_cast<void*>(0x1000);

/// Outputs whose memory must only be written to by Copy.
class DeviceMemory final : public Outputs {
 public:
  Status Allocate(std::size_t index, std::span<const std::int64_t>, void** data) override {
    *data = static_cast<char*>(kFaulting) + index;
    return Status();
  }
  Status Copy(void* to, const void* from, std::size_t bytes) override {
    const auto* const start = static_cast<const std::byte*>(from);
    copies[static_cast<std::size_t>(static_cast<char*>(to) - static_cast<char*>(kFaulting))] =
        std::vector<std::byte>(start, start + bytes);
    return Status();
  }
  std::map<std::size_t, std::vector<std::byte>> copies;
};

class GpuCallTest : public ::testing::Test {
 protected:
  GpuCallTest() {
    alive = 0;
    behaviour = Behaviour();
    part_.cuda = kCuda;
  }
  ~GpuCallTest() override { EXPECT_EQ(alive, 0); }

  Status Make(const std::string& name, const std::string& overload, const std::string& arguments,
              const std::string& results = "float32[...]") {
    const NodeText text = {"n", "aten::" + name, overload, arguments, results};
    Status status = FindOperator(text, &op_);
    if (!status.ok()) return status;
    const Gpu gpu = {&part_, kIndex};
    return Call::Make(fake_, &gpu, text, op_, 2, 1, &call_);
  }

  /// The inputs are a tensor of shape [2, 3] that must not be read, and integers, of which there is
  /// a copy on the CPU if the call asks for it.
  Status Run(Outputs& outputs, bool* lacks_kernel = nullptr) {
    std::vector<InputTensor> inputs = {{kFaulting, 1, shape_, true},
                                       {kFaulting, 7, index_shape_, true}};
    if (call_->read_inputs()[1]) inputs[1].host_copy = index_.data();
    EXPECT_FALSE(call_->read_inputs()[0]);
    return call_->Run(inputs, outputs, lacks_kernel);
  }

  const Libtorch fake_ = MakeFake();
  CudaPart part_;
  Operator op_;
  std::unique_ptr<const Call> call_;
  std::array<std::int64_t, 2> shape_ = {2, 3};
  std::array<std::int64_t, 2> index_ = {1, 2};
  std::vector<std::int64_t> index_shape_ = {2};
};

const FakeTensor kResult = {{2}, {1}, {5, 6}, nullptr, 1, true, kCuda};

TEST_F(GpuCallTest, TensorsAreViewsOnTheDevice) {
  ASSERT_TRUE(Make("lgamma", "", "(%0)").ok());
  behaviour.results = {kResult};
  DeviceMemory memory;
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.made, (std::vector<Behaviour::Made>{{kFaulting, kCuda, kIndex}}));
  EXPECT_EQ(memory.copies[0].size(), 2 * sizeof(float));
}

TEST_F(GpuCallTest, AnEmptyTensorHasNoMemory) {
  shape_ = {0, 3};
  ASSERT_TRUE(Make("lgamma", "", "(%0)").ok());
  behaviour.results = {kResult};
  DeviceMemory memory;
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.made, (std::vector<Behaviour::Made>{{nullptr, kCuda, kIndex}}));
}

TEST_F(GpuCallTest, ResultsOnTheCpuAndNumbersAreCopied) {
  ASSERT_TRUE(Make("lgamma", "", "(%0)").ok());
  behaviour.results = {kResult};
  behaviour.results[0].device = 0;
  DeviceMemory memory;
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(memory.copies[0].size(), 2 * sizeof(float));
  behaviour.results[0].device = 9;
  EXPECT_NE(Run(memory).message().find("is not on the CPU or a GPU"), std::string::npos);
}

TEST_F(GpuCallTest, StridedResultsAreLeftToLibtorch) {
  ASSERT_TRUE(Make("lgamma", "", "(%0)").ok());
  behaviour.results = {{{2, 2}, {1, 2}, {1, 2, 3, 4}, nullptr, 1, true, kCuda}};
  DeviceMemory memory;
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_TRUE(memory.copies.empty());
  EXPECT_EQ(behaviour.made.back(), (Behaviour::Made{kFaulting, kCuda, kIndex}));
}

TEST_F(GpuCallTest, NumbersInInputsAreReadFromCopies) {
  behaviour.results = {kResult};
  DeviceMemory memory;
  ASSERT_TRUE(Make("roll", "", "(%0, ints(%1), [0, 1])").ok());
  EXPECT_TRUE(Run(memory).ok());
  index_shape_ = {};
  ASSERT_TRUE(Make("roll", "", "(%0, [int(%1)], [0])").ok());
  EXPECT_TRUE(Run(memory).ok());
  ASSERT_TRUE(Make("remainder", "Scalar", "(%0, int(%1))").ok());
  EXPECT_TRUE(Run(memory).ok());
}

TEST_F(GpuCallTest, IndicesAreCheckedBeforeLibtorchIsCalled) {
  behaviour.results = {kResult};
  DeviceMemory memory;
  ASSERT_TRUE(Make("index_select", "", "(%0, 1, %1)").ok());
  EXPECT_TRUE(Run(memory).ok());
  index_[1] = 3;
  behaviour.made.clear();
  EXPECT_EQ(
      Run(memory).message(),
      "node 'n', operator aten::index_select: expected index from 0 to 2, got one that is out "
      "of range");
  EXPECT_TRUE(behaviour.made.empty());
}

TEST_F(GpuCallTest, DevicesAreTheGpu) {
  behaviour.results = {kResult};
  DeviceMemory memory;
  constexpr Value kGpu = (Value{kCuda} << 32U) | Value{kIndex};
  for (const char* const arguments : {"([2])", "([2], device=device(\"cpu\"))"}) {
    ASSERT_TRUE(Make("zeros", "", arguments).ok());
    ASSERT_TRUE(Run(memory).ok());
    // The dispatcher has freed this box by now, so that we only check that there was one.
    EXPECT_NE(behaviour.stack[3], 0U) << arguments;
  }
  ASSERT_TRUE(Make("_resize_output", "", "(%0, [2], device(\"cpu\"))").ok());
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.stack[2], kGpu);
  // With tensors, no device means the device of the tensors.
  ASSERT_TRUE(Make("zeros_like", "", "(%0)").ok());
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.stack[3], 0U);
}

TEST_F(GpuCallTest, ScalarsThatMustBeOnTheDevice) {
  behaviour.results = {kResult};
  DeviceMemory memory;
  ASSERT_TRUE(Make("remainder", "Scalar", "(%0, 2)").ok());
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.made.size(), 1U);
  behaviour.made.clear();
  ASSERT_TRUE(Make("clamp", "", "(%0, 1, 2)").ok());
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.made.size(), 3U);
  EXPECT_EQ(behaviour.made[1], (Behaviour::Made{nullptr, kCuda, kIndex}));
}

TEST_F(GpuCallTest, ArgumentsThatTorchWantsOnTheCpu) {
  behaviour.results = {kResult};
  behaviour.is_list = true;
  DeviceMemory memory;
  ASSERT_TRUE(
      Make("tensor_split", "tensor_indices_or_sections", "(%0, %1)", "[float32[...]]").ok());
  ASSERT_TRUE(Run(memory).ok());
  EXPECT_EQ(behaviour.made,
            (std::vector<Behaviour::Made>{{kFaulting, kCuda, kIndex}, {index_.data(), 0, 0}}));
}

TEST_F(GpuCallTest, AMissingKernelIsRecognized) {
  DeviceMemory memory;
  bool lacks_kernel = false;
  ASSERT_TRUE(Make("lgamma", "", "(%0)").ok());
  behaviour.fails = true;
  EXPECT_EQ(Run(memory, &lacks_kernel).message(),
            "node 'n', operator aten::lgamma, on the GPU: it went wrong");
  EXPECT_FALSE(lacks_kernel);
  behaviour.words = "CUDA out of memory. Tried to allocate 20.00 GiB";
  EXPECT_FALSE(Run(memory, &lacks_kernel).ok());
  EXPECT_FALSE(lacks_kernel);
  for (const char* const words :
       {"Could not run 'aten::lgamma' with arguments from the 'CUDA' backend.",
        "\"lgamma_cuda\" not implemented for 'Half'"}) {
    behaviour.words = words;
    lacks_kernel = false;
    EXPECT_FALSE(Run(memory, &lacks_kernel).ok());
    EXPECT_TRUE(lacks_kernel) << words;
  }
}

TEST_F(GpuCallTest, AnErrorWithoutTextIsNotTakenForAMissingKernel) {
  Libtorch silent = MakeFake();
  silent.exception_get_what_without_backtrace = nullptr;
  const NodeText text = {"n", "aten::lgamma", "", "(%0)", "float32[...]"};
  ASSERT_TRUE(FindOperator(text, &op_).ok());
  const Gpu gpu = {&part_, kIndex};
  ASSERT_TRUE(Call::Make(silent, &gpu, text, op_, 2, 1, &call_).ok());
  behaviour.fails = true;
  DeviceMemory memory;
  bool lacks_kernel = false;
  const Status status = Run(memory, &lacks_kernel);
  EXPECT_NE(status.message().find("make the session without OpgraftCUDA"), std::string::npos);
  EXPECT_FALSE(lacks_kernel);
}

}  // namespace
}  // namespace opgraft::aten
