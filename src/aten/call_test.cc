// Tests of calls, with a fake libtorch.
#include "aten/call.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "aten/fake_libtorch_test.h"

namespace opgraft::aten {
namespace {

class CallTest : public ::testing::Test {
 protected:
  CallTest() {
    alive = 0;
    behaviour = Behaviour();
  }
  ~CallTest() override { EXPECT_EQ(alive, 0); }

  Status Make(const std::string& name, const std::string& overload, const std::string& arguments,
              const std::string& results) {
    const NodeText text = {"n", "aten::" + name, overload, arguments, results};
    Status status = FindOperator(text, &op_);
    if (!status.ok()) return status;
    return Call::Make(fake_, nullptr, text, op_, 2, 1, &call_);
  }

  Status Run(Memory* memory) {
    const std::vector<InputTensor> inputs = {{numbers_.data(), 1, shape_}, {&two_, 7, {}}};
    return call_->Run(inputs, *memory);
  }

  const Libtorch fake_ = MakeFake();
  Operator op_;
  std::unique_ptr<const Call> call_;
  std::array<float, 6> numbers_ = {0, 1, 2, 3, 4, 5};
  std::array<std::int64_t, 2> shape_ = {2, 3};
  std::int64_t two_ = 2;
};

const FakeTensor kResult = {{2, 3}, {1, 2}, {0, 10, 1, 11, 2, 12}};

TEST_F(CallTest, StridedResultsBecomeContiguous) {
  ASSERT_TRUE(Make("lgamma", "", "(%0)", "float32[2,3]").ok());
  behaviour.results = {kResult};
  Memory memory;
  ASSERT_TRUE(Run(&memory).ok());
  EXPECT_EQ(memory.shapes[0], (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(memory.values[0], (std::vector<float>{0, 1, 2, 10, 11, 12, 0}));
}

TEST_F(CallTest, EverythingIsFreed) {
  // Boxes, texts, lists of tensors, of optional tensors and of numbers.
  ASSERT_TRUE(
      Make("linalg_svd", "", "(%0, true, driver=\"gesvd\")", "float32[...], float32[...], null")
          .ok());
  behaviour.results = {kResult, kResult, kResult};
  Memory memory;
  EXPECT_TRUE(Run(&memory).ok());
  ASSERT_TRUE(Make("index", "Tensor", "(%0, [null, %0])", "float32[...]").ok());
  behaviour.results = {kResult};
  EXPECT_TRUE(Run(&memory).ok());
  ASSERT_TRUE(Make("roll", "", "(%0, [1, int(%1)], [0, 1])", "float32[...]").ok());
  EXPECT_TRUE(Run(&memory).ok());
  ASSERT_TRUE(Make("split", "Tensor", "(%0, int(%1))", "[float32[...], float32[...]]").ok());
  behaviour.results = {kResult, kResult};
  behaviour.is_list = true;
  EXPECT_TRUE(Run(&memory).ok());
}

TEST_F(CallTest, EverythingIsFreedWhenTheCallFails) {
  Memory memory;
  ASSERT_TRUE(
      Make("searchsorted", "Tensor", "(%0, %0, side=\"right\", sorter=%0)", "int64[...]").ok());
  behaviour.fails = true;
  EXPECT_EQ(Run(&memory).message(), "node 'n', operator aten::searchsorted.Tensor: it went wrong");
  behaviour = {};
  ASSERT_TRUE(Make("searchsorted", "Tensor", "(%0, %0, sorter=%0)", "int64[...]").ok());
  behaviour.finds_no_schema = true;
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kUnavailable);
  behaviour = {};
  behaviour.results = {kResult};
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel);  // the result is float32
  ASSERT_TRUE(Make("lgamma", "", "(%0)", "float32[2,4]").ok());
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel);
  ASSERT_TRUE(Make("lgamma", "", "(%0)", "float32[...]").ok());
  memory.fails = true;
  EXPECT_EQ(Run(&memory).message(), "no memory");
  memory.fails = false;
  behaviour.results[0].is_defined = false;
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel);
  ASSERT_TRUE(Make("split", "Tensor", "(%0, 1)", "[float32[...]]").ok());
  behaviour.results = {kResult, kResult};
  behaviour.is_list = true;
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel);  // one tensor too many
}

TEST_F(CallTest, ArgumentsThatCannotBeMade) {
  Memory memory;
  // The arguments before the bad one have been made already.
  for (const char* arguments : {"(%0, [1, int(%0)], [0, 1])", "(complex(%0), [1], [1])",
                                "(%0, [1], ints(%0))", "(%0, ints(%0), [1])"}) {
    ASSERT_TRUE(Make("roll", "", arguments, "float32[...]").ok()) << arguments;
    EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel) << arguments;
  }
  ASSERT_TRUE(Make("index", "Tensor", "(%0, [%0, complex(%1)])", "float32[...]").ok());
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel);
}

TEST_F(CallTest, ScalarsByAnOverloadThatTakesTensors) {
  Memory memory;
  behaviour.results = {kResult};
  for (const char* arguments : {"(%0, 2)", "(%0, 0.5)", "(%0, true)", "(%0, int(%1))"}) {
    ASSERT_TRUE(Make("remainder", "Scalar", arguments, "float32[...]").ok()) << arguments;
    EXPECT_TRUE(Run(&memory).ok()) << arguments;
  }
  ASSERT_TRUE(Make("clamp", "", "(%0, null, 2)", "float32[...]").ok());
  EXPECT_TRUE(Run(&memory).ok());
  const Status none = Make("renorm", "", "(%0, 2, 0, 1.5)", "float32[...]");
  EXPECT_EQ(none.kind(), ErrorKind::kModel);
  EXPECT_NE(none.message().find("argument 'p' is a Scalar"), std::string::npos);
}

TEST_F(CallTest, ArgumentsAndResultsThatDoNotMatchTheSchema) {
  for (const char* arguments : {"()", "(1)", "(%2)", "(%0, 1)", "(null)", "([%0])", "(x=%0)",
                                "(%0, self=%0)", "(\"x\")", "(torch.float32)"}) {
    EXPECT_EQ(Make("lgamma", "", arguments, "float32[...]").kind(), ErrorKind::kModel) << arguments;
  }
  for (const char* results : {"", "int", "float32[...], float32[...]", "[float32[...]]"}) {
    EXPECT_EQ(Make("lgamma", "", "(%0)", results).kind(), ErrorKind::kModel) << results;
  }
  EXPECT_EQ(Make("lgamma", "out", "(%0)", "float32[...]").kind(), ErrorKind::kModel);
}

/// Whatever the node contains, the dispatcher gets arguments of the schema's types: otherwise the
/// fake would crash.
TEST_F(CallTest, AnyArgumentsAreRefusedOrRight) {
  const char* const values[] = {"%0",
                                "%1",
                                "complex(%0)",
                                "int(%1)",
                                "ints(%1)",
                                "null",
                                "true",
                                "2",
                                "0.5",
                                "\"text\"",
                                "torch.int64",
                                "[]",
                                "[%0]",
                                "[null, %0]",
                                "[1, 2]",
                                "[true]",
                                "[0.5]",
                                "[\"x\"]",
                                "device(\"cpu\")",
                                "complex(1.0, 2.0)"};
  std::mt19937 random(2);
  std::vector<std::string> names;
  for (std::string_view left = AllOperators(); !left.empty();) {
    const std::size_t end = left.find('\n');
    Schema read;
    ASSERT_TRUE(ReadSchema(left.substr(1, end - 1), &read));
    left.remove_prefix(end + 1);
    const bool is_plain = read.results.size() == 1 && read.results[0].type.Text() == "Tensor";
    if (!is_plain) continue;
    for (int i = 0; i < 40; ++i) {
      std::string arguments;
      for (std::size_t j = 0; j < read.parameters.size(); ++j) {
        const char* const value = values[random() % std::size(values)];
        if (!read.parameters[j].default_text.empty() && random() % 2 == 0) break;
        arguments += (arguments.empty() ? "" : ", ") + std::string(value);
      }
      const std::string name(read.name);
      if (!Make(name, std::string(read.overload), "(" + arguments + ")", "float32[...]").ok()) {
        continue;
      }
      behaviour.results = {kResult};
      Memory memory;
      (void)Run(&memory);
      ASSERT_EQ(alive, 0) << name << arguments;
    }
  }
}

}  // namespace
}  // namespace opgraft::aten
