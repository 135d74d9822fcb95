#include "core/memory_host.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/packs.h"
#include "core/test_packs.h"
#include "opgraft/op.h"

namespace opgraft {
namespace {

OPGRAFT_TYPES(T, float, double);

OPGRAFT_OP("test::Scale")
    .Input<T>("x")
    .OptionalInput<T>("bias")
    .Output<T>("y")
    .Attribute<float>("factor", 2)
    .Shape(SameAs("x"))
    .Cpu([](Context& context, auto x, auto bias, auto y, float factor) {
      float* const scratch = context.Scratch<float>(1).data();
      scratch[0] = factor;
      context.ParallelFor(x.size(), [&](std::size_t i) { y[i] = x[i] * scratch[0]; });
      if (bias) {
        for (std::size_t i = 0; i < x.size(); ++i) y[i] += (*bias)[i];
      }
    });

OPGRAFT_OP("test::Join")
    .VariadicInput<std::string>("parts")
    .Output<std::string>("y")
    .Shape([](ShapeContext& context) { context.SetOutput(0, {}); })
    .Cpu([](auto parts, auto y) {
      for (const auto& part : parts) {
        for (const std::string& text : part) y[0] += text;
      }
    });

OPGRAFT_OP("test::Fail").Input<float>("x").Output<float>("y").Cpu([](auto, Output<float>) {
  return Status::Model("requested failure");
});

OPGRAFT_OP("test::Wrong").Input<float>("x").Output<float>("y").Cpu([](auto, Output<float> y) {
  y.Allocate({2, -3});
});

OPGRAFT_OP("test::Repeat")
    .Input<float>("x")
    .Input<std::int64_t>("times")
    .Output<float>("y")
    .Shape([](ShapeContext& context) {
      const auto x = context.Input(0);
      const auto times = context.Integers(1);
      if (!x) return;
      if (x->size() != 1) throw ShapeError("x is not a vector");
      context.SetOutput(0, {times ? (*x)[0] * (*times)[0] : Dim()});
    })
    .Cpu([](auto x, auto, auto y) {
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i % x.size()];
    });

OPGRAFT_OP("test::OnGpu")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(SameAs("x"))
    .Cuda([](DeviceTensor<const float>, DeviceTensor<float>) {});

/// Keeps the outputs of an operator.
class Kept final : public OutputReceiver {
 public:
  void* Allocate(std::size_t index, std::int32_t element_type,
                 std::span<const std::int64_t> shape) override {
    types[index] = element_type;
    shapes[index].assign(shape.begin(), shape.end());
    return bytes[index].data();
  }
  void Store(std::size_t index, std::span<const std::int64_t> shape,
             std::span<const OpgraftText> given) override {
    shapes[index].assign(shape.begin(), shape.end());
    for (const OpgraftText& text : given) texts.emplace_back(text.data, text.size);
  }
  template <class T>
  T At(std::size_t index, std::size_t element) const {
    T value;
    std::copy_n(bytes.at(index).data() + element * sizeof(T), sizeof(T),
                reinterpret_cast<std::byte*>(&value));
    return value;
  }

  std::map<std::size_t, std::int32_t> types;
  std::map<std::size_t, std::vector<std::int64_t>> shapes;
  std::map<std::size_t, std::array<std::byte, 256>> bytes;
  std::vector<std::string> texts;
};

class MemoryHostTest : public ::testing::Test {
 protected:
  MemoryHostTest() {
    const Status status = packs_.Add(*opgraft_pack(), "libtest.so", testing::Nobody);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  const Schema& Find(std::string_view name) {
    std::shared_ptr<const Schema> schema;
    EXPECT_TRUE(packs_.Find("", name, 0, &schema).ok());
    return *schema;
  }
  Status Run(std::string_view name, const std::vector<OpgraftTensor>& inputs,
             std::size_t outputs = 1) {
    return RunNative(Find(name), inputs, outputs, attributes_, kept_);
  }

  Packs packs_;
  GivenAttributes attributes_;
  Kept kept_;
  std::vector<std::int64_t> two_ = {2};
  std::vector<float> floats_ = {1, 2};
  std::vector<double> doubles_ = {1, 2};
  OpgraftTensor x_ = {floats_.data(), two_.data(), 1, 1};
  OpgraftTensor wide_ = {doubles_.data(), two_.data(), 1, 11};
};

TEST_F(MemoryHostTest, TheKernelOfTheInputsType) {
  ASSERT_TRUE(Run("test::Scale", {x_}).ok());
  EXPECT_EQ(kept_.types[0], 1);
  EXPECT_EQ(kept_.shapes[0], two_);
  EXPECT_EQ(kept_.At<float>(0, 1), 4);
  ASSERT_TRUE(Run("test::Scale", {wide_, wide_}).ok());
  EXPECT_EQ(kept_.types[0], 11);
  EXPECT_EQ(kept_.At<double>(0, 1), 6);
}

TEST_F(MemoryHostTest, KernelsForCudaAreNotRunHere) {
  Status status = Run("test::OnGpu", {x_});
  EXPECT_EQ(status.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(
      status.message(),
      "test::OnGpu: its only kernel for these types is for CUDA, but here it runs on the CPU. "
      "Fix: run it in a session with providers=[\"OpgraftCUDA\", "
      "\"CPUExecutionProvider\"], or add a kernel with .Cpu(...)");
  status = Run("test::OnGpu", {wide_});
  EXPECT_EQ(status.message(), "test::OnGpu: input 0, 'x', is float64, expected float32");
}

TEST_F(MemoryHostTest, AKernelThatIsMadeOnceAndRunOften) {
  const float factor = 5;
  OpgraftAttribute attribute = {};
  attribute.kind = 1;
  attribute.count = 1;
  attribute.floats = &factor;
  std::unique_ptr<NativeKernel> kernel;
  {
    const GivenAttributes given = {{"factor", attribute}};  // destroyed before the kernel runs
    ASSERT_TRUE(NativeKernel::Make(Find("test::Scale"), {1}, 1, given, &kernel).ok());
  }
  for (int i = 0; i < 3; ++i) {
    floats_[1] = static_cast<float>(i);
    ASSERT_TRUE(kernel->Run(std::span(&x_, 1), kept_).ok());
    EXPECT_EQ(kept_.At<float>(0, 1), 5 * i);
  }
}

TEST_F(MemoryHostTest, LoopsOfTheHost) {
  std::unique_ptr<NativeKernel> kernel;
  ASSERT_TRUE(NativeKernel::Make(Find("test::Scale"), {1}, 1, {}, &kernel).ok());
  static std::size_t looped = 0;
  const auto backwards = [](std::size_t total, void (*body)(void*, std::size_t), void* argument) {
    for (std::size_t i = total; i-- > 0; ++looped) body(argument, i);
  };
  ASSERT_TRUE(kernel->Run(std::span(&x_, 1), kept_, backwards).ok());
  EXPECT_EQ(looped, 2U);
  EXPECT_EQ(kept_.At<float>(0, 1), 4);
}

TEST_F(MemoryHostTest, AttributesThatAreGiven) {
  const float factor = 5;
  OpgraftAttribute attribute = {};
  attribute.kind = 1;
  attribute.count = 1;
  attribute.floats = &factor;
  attributes_["factor"] = attribute;
  ASSERT_TRUE(Run("test::Scale", {x_}).ok());
  EXPECT_EQ(kept_.At<float>(0, 1), 10);
  attributes_["factor"].kind = 2;
  const Status status = Run("test::Scale", {x_});
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_NE(status.message().find("test::Scale: "), std::string::npos);
  EXPECT_NE(status.message().find("'factor'"), std::string::npos);
}

TEST_F(MemoryHostTest, Strings) {
  const OpgraftText texts[] = {{"a", 1}, {"bc", 2}};
  const OpgraftTensor strings = {const_cast<OpgraftText*>(texts), two_.data(), 1, 8};
  ASSERT_TRUE(Run("test::Join", {strings, strings}).ok());
  EXPECT_EQ(kept_.texts, std::vector<std::string>{"abcabc"});
  EXPECT_TRUE(kept_.shapes[0].empty());
}

TEST_F(MemoryHostTest, WhatDoesNotFit) {
  const auto is_refused = [this](std::string_view name, const std::vector<OpgraftTensor>& inputs,
                                 std::size_t outputs = 1) {
    const Status status = Run(name, inputs, outputs);
    EXPECT_TRUE(status.message().starts_with(std::string(name) + ": ")) << status.message();
    return status.kind() == ErrorKind::kModel;
  };
  EXPECT_TRUE(is_refused("test::Scale", {}));
  EXPECT_TRUE(is_refused("test::Scale", {x_, x_, x_}));
  EXPECT_TRUE(is_refused("test::Scale", {x_}, 2));
  EXPECT_TRUE(is_refused("test::Scale", {x_, wide_}));
  EXPECT_TRUE(is_refused("test::Scale", {OpgraftTensor(), x_}));
  EXPECT_TRUE(is_refused("test::Fail", {wide_}));
  EXPECT_TRUE(is_refused("test::Join", {}));
}

TEST_F(MemoryHostTest, WhatAKernelSays) {
  const Status status = Run("test::Fail", {x_});
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_EQ(status.message(), "test::Fail: requested failure");
  EXPECT_NE(Run("test::Wrong", {x_}).message().find("test::Wrong: "), std::string::npos);
}

TEST_F(MemoryHostTest, ShapesAreInferred) {
  std::vector<KnownValue> inferred;
  KnownValue x = {11, std::vector<Dimension>{{-1, "n"}, {3, ""}}};
  ASSERT_TRUE(InferNative(Find("test::Scale"), {x}, 1, attributes_, &inferred).ok());
  EXPECT_EQ(inferred[0].element_type, 11);
  ASSERT_TRUE(inferred[0].shape);
  EXPECT_EQ((*inferred[0].shape)[0].symbol, "n");
  EXPECT_EQ((*inferred[0].shape)[1].size, 3);

  const std::int64_t three = 3;
  const std::vector<std::int64_t> one = {1};
  x = {1, std::vector<Dimension>{{-1, "n"}}};
  KnownValue times = {7, std::vector<Dimension>{{1, ""}}};
  ASSERT_TRUE(InferNative(Find("test::Repeat"), {x, times}, 1, attributes_, &inferred).ok());
  EXPECT_EQ((*inferred[0].shape)[0].size, -1);
  EXPECT_EQ((*inferred[0].shape)[0].symbol, "");
  times.constant = {const_cast<std::int64_t*>(&three), one.data(), 1, 7};
  ASSERT_TRUE(InferNative(Find("test::Repeat"), {x, times}, 1, attributes_, &inferred).ok());
  EXPECT_EQ((*inferred[0].shape)[0].symbol, "3*n");
  // A computed symbol is dropped if the model uses the same text as a name.
  times.shape = std::vector<Dimension>{{-1, "3*n"}};
  ASSERT_TRUE(InferNative(Find("test::Repeat"), {x, times}, 1, attributes_, &inferred).ok());
  EXPECT_EQ((*inferred[0].shape)[0].symbol, "");
  x.shape->push_back({2, ""});
  const Status status = InferNative(Find("test::Repeat"), {x, times}, 1, attributes_, &inferred);
  EXPECT_EQ(status.message(), "test::Repeat: x is not a vector");
  // Without a rule or a rank, at least the type is known.
  ASSERT_TRUE(InferNative(Find("test::Fail"), {{1, {}, {}}}, 1, attributes_, &inferred).ok());
  EXPECT_EQ(inferred[0].element_type, 1);
  EXPECT_FALSE(inferred[0].shape);
}

}  // namespace
}  // namespace opgraft
