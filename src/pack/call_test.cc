// Tests of operators that are called only through the C contract, by a host that is not a runtime.
#include <gtest/gtest.h>
#include <opgraft/op.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace {

thread_local std::size_t allocations = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Counts allocations: a call that uses the heap is slow.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

OPGRAFT_TYPES(T, float, double);

OPGRAFT_OP("unit::Scale")
    .Doc("Multiplies.")
    .Torch("aten::mul")
    .Torch("aten::div", {{"factor", 0.5}, {"x", opgraft::Argument("self")}, {"mode", "floor"}},
           opgraft::LeftToTorch<bool, std::int32_t>())
    .Since(2)
    .Input<T>("x", "any")
    .Output<T>("y", "more")
    .Attribute<float>("factor", 2, "by which")
    .InPlace("x", "y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Tensor<E> y, float factor) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * factor;
    });

OPGRAFT_OP("unit::Fail")
    .Input<float>("x")
    .Output<float>("y")
    .Cpu([](opgraft::Tensor<const float>, opgraft::Output<float>) {
      return opgraft::Status::Policy("not today");
    });

namespace {

std::size_t rules_asked = 0;

}  // namespace

OPGRAFT_OP("unit::Shorten")
    .Input<float>("x")
    .Output<float>("y")
    .Shape([](opgraft::ShapeContext& context) {
      ++rules_asked;
      opgraft::Shape shape = *context.Input(0);
      if (shape[0].size() == 1) throw opgraft::ShapeError("too short");
      context.SetOutput(0, {shape[0] - 1});
    })
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i];
    });

OPGRAFT_OP("unit::Zeros")
    .Input<std::int64_t>("shape")
    .Output<float>("y")
    .Shape(opgraft::FromConstant("shape"))
    .Cpu([](opgraft::Tensor<const std::int64_t>, opgraft::Tensor<float> y) {
      for (float& one : y) one = 0;
    });

namespace {

const OpgraftOperator* Find(const char* name) {
  const OpgraftPack* const pack = opgraft_pack();
  for (std::size_t i = 0; i < pack->operator_count; ++i) {
    const OpgraftOperator* const one = pack->operators[i];
    if (std::strcmp(one->domain, "unit") == 0 && std::strcmp(one->name, name) == 0) return one;
  }
  return nullptr;
}

/// A node 'n' with one input, one output and no attributes.
struct Node : OpgraftNode {
  Node() : OpgraftNode{&kTable} {}
  static constexpr OpgraftNodeTable kTable = {
      [](OpgraftNode*, const OpgraftError*) {},
      [](OpgraftNode*) -> OpgraftText { return {"n", 1}; },
      [](OpgraftNode*) -> std::size_t { return 1; },
      [](OpgraftNode*) -> std::size_t { return 1; },
      [](OpgraftNode*, std::size_t, std::int32_t* type) {
        *type = 1;
        return 0;
      },
      [](OpgraftNode*, const char*, std::int32_t, OpgraftAttribute* read) {
        *read = {};
        return 0;
      },
      [](OpgraftNode*, std::size_t, OpgraftTensor* tensor) {
        *tensor = {};
        return 0;
      }};
};

/// A call whose only input is three floats.
struct Call : OpgraftCall {
  Call() : OpgraftCall{&kTable} { shape.reserve(8); }
  static const OpgraftCallTable kTable;

  alignas(8) float x[3] = {1, 2, 3};
  float y[3] = {};
  std::int64_t size = 3;
  std::int32_t type = 1;
  std::vector<std::int64_t> shape;  ///< of the output
  std::int32_t kind = 0;
  std::string text;
};

Call& Self(OpgraftCall* call) { return *static_cast<Call*>(call); }

const OpgraftCallTable Call::kTable = {
    .fail =
        [](OpgraftCall* call, const OpgraftError* error) {
          Self(call).kind = error->kind;
          Self(call).text.assign(error->text.data, error->text.size);
        },
    .input =
        [](OpgraftCall* call, std::size_t, OpgraftTensor* tensor) {
          *tensor = {Self(call).x, &Self(call).size, 1, Self(call).type};
          return 0;
        },
    .output =
        [](OpgraftCall* call, std::size_t, const std::int64_t* shape, std::size_t rank,
           OpgraftTensor* tensor) {
          Self(call).shape.assign(shape, shape + rank);
          *tensor = {Self(call).y, shape, rank, 1};
          return 0;
        },
    .store_texts = nullptr,
    .scratch = nullptr,
    .parallel_for = nullptr,
    .log = nullptr,
    .stream = nullptr};

TEST(Pack, NamesTheTorchOperatorsThatItReplaces) {
  const OpgraftOperator* const scale = Find("Scale");
  ASSERT_EQ(scale->torch_call_count, 2U);
  EXPECT_STREQ(scale->torch_calls[0].name, "aten::mul");
  EXPECT_EQ(scale->torch_calls[0].argument_count, 0U);
  const OpgraftTorchCall& divide = scale->torch_calls[1];
  EXPECT_STREQ(divide.name, "aten::div");
  ASSERT_EQ(divide.argument_count, 3U);
  EXPECT_STREQ(divide.arguments[0].name, "factor");
  EXPECT_EQ(divide.arguments[0].argument, nullptr);
  EXPECT_EQ(divide.arguments[0].value.floats[0], 0.5F);
  EXPECT_STREQ(divide.arguments[1].argument, "self");
  EXPECT_EQ(divide.arguments[1].value.kind, 0);
  const OpgraftText mode = divide.arguments[2].value.texts[0];
  EXPECT_EQ(std::string(mode.data, mode.size), "floor");
  EXPECT_EQ(std::vector<std::int32_t>(divide.left_to_torch,
                                      divide.left_to_torch + divide.left_to_torch_count),
            (std::vector<std::int32_t>{9, 6}));
  EXPECT_EQ(Find("Fail")->torch_call_count, 0U);
  EXPECT_STREQ(Find("Fail")->torch_name, "");
}

TEST(Pack, DescribesItsOperators) {
  ASSERT_EQ(opgraft_pack()->problem, nullptr);
  EXPECT_EQ(opgraft_pack()->version, std::uint32_t{OPGRAFT_PACK_VERSION});
  const OpgraftOperator* const scale = Find("Scale");
  ASSERT_NE(scale, nullptr);
  EXPECT_STREQ(scale->domain, "unit");
  EXPECT_STREQ(scale->documentation, "Multiplies.");
  EXPECT_STREQ(scale->torch_name, "aten::mul, aten::div");
  EXPECT_EQ(scale->since_version, 2);
  ASSERT_EQ(scale->input_count, 1U);
  EXPECT_STREQ(scale->inputs[0].name, "x");
  EXPECT_STREQ(scale->inputs[0].description, "any");
  ASSERT_EQ(scale->type_count, 1U);
  EXPECT_STREQ(scale->types[0].name, "T");
  EXPECT_EQ(std::vector<std::int32_t>(scale->types[0].allowed, scale->types[0].allowed + 2),
            (std::vector<std::int32_t>{1, 11}));
  ASSERT_EQ(scale->attribute_count, 1U);
  EXPECT_STREQ(scale->attributes[0].description, "by which");
  EXPECT_EQ(scale->attributes[0].fallback.kind, 1);
  EXPECT_EQ(scale->attributes[0].fallback.floats[0], 2);
  EXPECT_EQ(scale->in_place_count, 1U);
  ASSERT_EQ(scale->kernel_count, 2U);
  EXPECT_EQ(scale->kernels[1]->types[0], 11);
  EXPECT_NE(scale->infer, nullptr);
  EXPECT_EQ(Find("Fail")->infer, nullptr);
}

TEST(Pack, RunsWithoutAllocations) {
  const OpgraftKernel* const kernel = Find("Scale")->kernels[0];
  Node node;
  void* state = nullptr;
  ASSERT_EQ(kernel->create(kernel, &node, &state), 0);
  Call call;
  const std::size_t before = allocations;
  ASSERT_EQ(kernel->compute(state, &call), 0);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(call.y[2], 6);
  kernel->destroy(state);
}

TEST(Pack, CallsTheRuleOnceForTheSameShapes) {
  const OpgraftKernel* const kernel = Find("Shorten")->kernels[0];
  Node node;
  void* state = nullptr;
  ASSERT_EQ(kernel->create(kernel, &node, &state), 0);
  Call call;
  rules_asked = 0;
  const auto run = [&](std::int64_t size) {
    call.size = size;
    return kernel->compute(state, &call) == 0 ? call.shape.at(0) : -1;
  };
  EXPECT_EQ(run(3), 2);
  const std::size_t before = allocations;
  EXPECT_EQ(run(3), 2);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(rules_asked, 1U);
  EXPECT_EQ(run(2), 1);
  EXPECT_EQ(run(1), -1);  // a refusal is not remembered: the rule refuses again
  EXPECT_EQ(run(1), -1);
  EXPECT_EQ(call.text, "too short");
  EXPECT_EQ(run(2), 1);
  EXPECT_EQ(run(3), 2);
  EXPECT_EQ(rules_asked, 5U);
  kernel->destroy(state);
}

TEST(Pack, CallsTheRuleAgainIfItReadsElements) {
  const OpgraftKernel* const kernel = Find("Zeros")->kernels[0];
  Node node;
  void* state = nullptr;
  ASSERT_EQ(kernel->create(kernel, &node, &state), 0);
  Call call;
  call.type = 7;
  call.size = 1;
  for (const std::int64_t size : {3, 2}) {
    std::memcpy(call.x, &size, sizeof(size));
    ASSERT_EQ(kernel->compute(state, &call), 0);
    EXPECT_EQ(call.shape, std::vector<std::int64_t>{size});
  }
  kernel->destroy(state);
}

TEST(Pack, PassesErrorsToTheHost) {
  const OpgraftKernel* const kernel = Find("Fail")->kernels[0];
  Node node;
  void* state = nullptr;
  ASSERT_EQ(kernel->create(kernel, &node, &state), 0);
  Call call;
  EXPECT_NE(kernel->compute(state, &call), 0);
  EXPECT_EQ(call.kind, 4);
  EXPECT_EQ(call.text, "not today");
  call.type = 11;
  EXPECT_NE(kernel->compute(state, &call), 0);
  EXPECT_EQ(call.text, "it threw a C++ exception: input 0 is float64, expected float32");
  call.type = 0;
  EXPECT_NE(kernel->compute(state, &call), 0);
  EXPECT_EQ(call.text, "it threw a C++ exception: input 0 is absent, but the operator needs it");
  kernel->destroy(state);
}

}  // namespace
