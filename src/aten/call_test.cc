// Tests of calls with a libtorch that is none: it counts what it is asked to make and to give back.
#include "aten/call.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

namespace opgraft::aten {
namespace {

/// What is made and not given back.
int alive = 0;

struct FakeTensor {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::vector<float> own;
  void* data = nullptr;
  std::int32_t dtype = 1;
  bool is_defined = true;
};

FakeTensor* AsFake(Tensor tensor) { return reinterpret_cast<FakeTensor*>(tensor); }

Tensor NewTensor(FakeTensor tensor) {
  ++alive;
  return reinterpret_cast<Tensor>(new FakeTensor(std::move(tensor)));
}

Failure DeleteTensor(Tensor tensor) {
  --alive;
  delete AsFake(tensor);
  return 0;
}

using FakeList = std::vector<Value>;
FakeList& AsList(List list) { return *reinterpret_cast<FakeList*>(list); }

Failure NewList(std::size_t, List* list) {
  ++alive;
  *list = reinterpret_cast<List>(new FakeList);
  return 0;
}

Failure DeleteList(List list) {
  --alive;
  delete &AsList(list);
  return 0;
}

/// What the dispatcher is to do next.
struct Behaviour {
  bool fails = false;
  bool finds_no_schema = false;
  std::vector<FakeTensor> results;
  bool is_list = false;
};
Behaviour behaviour;
void TakeOver(const Type& type, Value value);

void TakeOverContent(const Type& type, Value value) {
  if (type.is_list) {
    Type element = type;
    element.is_list = false;
    element.is_optional = type.has_optional_elements;
    for (const Value item : AsList(reinterpret_cast<List>(value))) TakeOver(element, item);
    (void)DeleteList(reinterpret_cast<List>(value));
  } else if (type.kind == Kind::kTensor) {
    (void)DeleteTensor(reinterpret_cast<Tensor>(value));
  } else if (type.kind == Kind::kText) {
    --alive;
    delete reinterpret_cast<std::string*>(value);
  }
}

void TakeOver(const Type& type, Value value) {
  if (!type.is_optional) return TakeOverContent(type, value);
  if (value == 0) return;
  auto* const box = reinterpret_cast<Value*>(value);
  TakeOverContent(type, *box);
  --alive;
  delete box;
}

Failure CallDispatcher(const char* name, const char* overload, Value* stack, std::uint64_t) {
  if (behaviour.finds_no_schema) return 1;
  Schema schema;
  for (const Operator& one : FindOperators(WithoutNamespace(name))) {
    if (one.schema.overload == overload) schema = one.schema;
  }
  EXPECT_FALSE(schema.name.empty()) << name;
  for (std::size_t i = 0; i < schema.parameters.size(); ++i) {
    TakeOver(schema.parameters[i].type, stack[i]);
  }
  if (behaviour.fails) return 1;
  FakeList* list = nullptr;
  if (behaviour.is_list) {
    List made = nullptr;
    (void)NewList(0, &made);
    stack[0] = reinterpret_cast<Value>(made);
    list = &AsList(made);
  }
  for (std::size_t i = 0; i < behaviour.results.size(); ++i) {
    FakeTensor result = behaviour.results[i];
    const Tensor tensor = NewTensor(result);
    AsFake(tensor)->data = AsFake(tensor)->own.data();
    const auto value = reinterpret_cast<Value>(tensor);
    if (list != nullptr) {
      list->push_back(value);
    } else {
      stack[i] = value;
    }
  }
  return 0;
}

Libtorch MakeFake() {
  Libtorch fake = {};
  fake.version = (std::uint64_t{2} << 56U) | (std::uint64_t{13} << 48U);
  fake.find_number = [](const char* kind, const std::string& name) -> std::int32_t {
    const Dtype* const dtype = FindDtype(name);
    if (std::string_view(kind) != "dtype") return name == "strided" ? 0 : -1;
    return dtype != nullptr ? dtype->element_type + (dtype->is_complex ? 32 : 0) : -1;
  };
  fake.call_dispatcher = CallDispatcher;
  fake.new_list_reserve_size = NewList;
  fake.delete_list = DeleteList;
  fake.list_push_back = [](List list, Value value) -> Failure {
    AsList(list).push_back(value);
    return 0;
  };
  fake.list_size = [](List list, std::size_t* size) -> Failure {
    *size = AsList(list).size();
    return 0;
  };
  fake.list_get_item = [](List list, std::size_t index, Value* value) -> Failure {
    *value = AsList(list)[index];
    return 0;
  };
  fake.new_string_handle = [](const char* data, std::size_t length, String* string) -> Failure {
    ++alive;
    *string = reinterpret_cast<String>(new std::string(data, length));
    return 0;
  };
  fake.delete_string = [](String string) -> Failure {
    --alive;
    delete reinterpret_cast<std::string*>(string);
    return 0;
  };
  fake.create_tensor_from_blob = [](void* data, std::int64_t rank, const std::int64_t* sizes,
                                    const std::int64_t* strides, std::int64_t, std::int32_t dtype,
                                    std::int32_t, std::int32_t, Tensor* tensor) -> Failure {
    *tensor = NewTensor({{sizes, sizes + rank}, {strides, strides + rank}, {}, data, dtype});
    return 0;
  };
  const auto new_number = [](auto, Tensor* tensor) -> Failure {
    *tensor = NewTensor({});
    return 0;
  };
  fake.scalar_to_tensor_bool = new_number;
  fake.scalar_to_tensor_int64 = new_number;
  fake.scalar_to_tensor_float32 = new_number;
  fake.scalar_to_tensor_float64 = new_number;
  fake.delete_tensor_object = DeleteTensor;
  fake.clone = [](Tensor tensor, Tensor* copy) -> Failure {
    *copy = NewTensor(*AsFake(tensor));
    return 0;
  };
  fake.copy_ = [](Tensor, Tensor, std::int32_t) -> Failure { return 0; };
  fake.get_data_ptr = [](Tensor tensor, void** data) -> Failure {
    *data = AsFake(tensor)->data;
    return 0;
  };
  fake.get_dim = [](Tensor tensor, std::int64_t* rank) -> Failure {
    *rank = static_cast<std::int64_t>(AsFake(tensor)->sizes.size());
    return 0;
  };
  fake.get_sizes = [](Tensor tensor, std::int64_t** sizes) -> Failure {
    *sizes = AsFake(tensor)->sizes.data();
    return 0;
  };
  fake.get_strides = [](Tensor tensor, std::int64_t** strides) -> Failure {
    *strides = AsFake(tensor)->strides.data();
    return 0;
  };
  fake.get_dtype = [](Tensor tensor, std::int32_t* dtype) -> Failure {
    *dtype = AsFake(tensor)->dtype;
    return 0;
  };
  fake.get_layout = fake.get_device_type = [](Tensor, std::int32_t* number) -> Failure {
    *number = 0;
    return 0;
  };
  fake.is_defined = [](Tensor tensor, bool* is_defined) -> Failure {
    *is_defined = AsFake(tensor)->is_defined;
    return 0;
  };
  fake.grad_mode_is_enabled = [] { return true; };
  fake.grad_mode_set_enabled = [](bool) {};
  fake.exception_get_what_without_backtrace = [] {
    return behaviour.finds_no_schema ? "Could not find schema for aten::x" : "it went wrong";
  };
  fake.new_stable_ivalue = [](Value** box) -> Failure {
    ++alive;
    *box = new Value;
    return 0;
  };
  fake.delete_stable_ivalue = [](Value* box) -> Failure {
    --alive;
    delete box;
    return 0;
  };
  return fake;
}

class Memory final : public Outputs {
 public:
  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    shapes[index].assign(shape.begin(), shape.end());
    values[index].resize(Count(shape) + 1);
    *data = values[index].data();
    return fails ? Status::Error("no memory") : Status();
  }
  bool fails = false;
  std::map<std::size_t, std::vector<std::int64_t>> shapes;
  std::map<std::size_t, std::vector<float>> values;
};

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

TEST_F(CallTest, EverythingIsGivenBack) {
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

TEST_F(CallTest, EverythingIsGivenBackWhereItFails) {
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
  EXPECT_EQ(Run(&memory).kind(), ErrorKind::kModel);  // it is float32
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
  // What stands before them has been made already.
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

TEST_F(CallTest, WhatDoesNotFitTheSchema) {
  for (const char* arguments : {"()", "(1)", "(%2)", "(%0, 1)", "(null)", "([%0])", "(x=%0)",
                                "(%0, self=%0)", "(\"x\")", "(torch.float32)"}) {
    EXPECT_EQ(Make("lgamma", "", arguments, "float32[...]").kind(), ErrorKind::kModel) << arguments;
  }
  for (const char* results : {"", "int", "float32[...], float32[...]", "[float32[...]]"}) {
    EXPECT_EQ(Make("lgamma", "", "(%0)", results).kind(), ErrorKind::kModel) << results;
  }
  EXPECT_EQ(Make("lgamma", "out", "(%0)", "float32[...]").kind(), ErrorKind::kModel);
}

/// Whatever a node says, the dispatcher gets what the schema wants: the fake would crash otherwise.
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
