// A fake libtorch for tests: it counts the objects that it is asked to make and to delete.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "aten/call.h"

namespace opgraft::aten {

/// The number of objects that were made and not yet deleted.
inline int alive = 0;

struct FakeTensor {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::vector<float> own;
  void* data = nullptr;
  std::int32_t dtype = 1;
  bool is_defined = true;
  std::int32_t device = 0;
};

inline FakeTensor* AsFake(Tensor tensor) { return reinterpret_cast<FakeTensor*>(tensor); }

inline Tensor NewTensor(FakeTensor tensor) {
  ++alive;
  return reinterpret_cast<Tensor>(new FakeTensor(std::move(tensor)));
}

inline Failure DeleteTensor(Tensor tensor) {
  --alive;
  delete AsFake(tensor);
  return 0;
}

using FakeList = std::vector<Value>;
inline FakeList& AsList(List list) { return *reinterpret_cast<FakeList*>(list); }

inline Failure NewList(std::size_t, List* list) {
  ++alive;
  *list = reinterpret_cast<List>(new FakeList);
  return 0;
}

inline Failure DeleteList(List list) {
  --alive;
  delete &AsList(list);
  return 0;
}

/// How the dispatcher behaves in the next call, and what it was given.
struct Behaviour {
  bool fails = false;
  bool finds_no_schema = false;
  std::vector<FakeTensor> results;
  bool is_list = false;
  std::string words = "it went wrong";
  struct Made {
    void* data = nullptr;
    std::int32_t device = 0;
    std::int32_t index = 0;
    bool operator==(const Made&) const = default;
  };
  std::vector<Made> made;    ///< the tensors that it was asked to make
  std::vector<Value> stack;  ///< the arguments that the dispatcher got
};
inline Behaviour behaviour;
inline void TakeOver(const Type& type, Value value);

inline void TakeOverContent(const Type& type, Value value) {
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

inline void TakeOver(const Type& type, Value value) {
  if (!type.is_optional) return TakeOverContent(type, value);
  if (value == 0) return;
  auto* const box = reinterpret_cast<Value*>(value);
  TakeOverContent(type, *box);
  --alive;
  delete box;
}

inline Failure CallDispatcher(const char* name, const char* overload, Value* stack, std::uint64_t) {
  if (behaviour.finds_no_schema) return 1;
  behaviour.stack.assign(stack, stack + 16);
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

inline Libtorch MakeFake() {
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
                                    std::int32_t device, std::int32_t index,
                                    Tensor* tensor) -> Failure {
    *tensor = NewTensor(
        {{sizes, sizes + rank}, {strides, strides + rank}, {}, data, dtype, true, device});
    behaviour.made.push_back({data, device, index});
    return 0;
  };
  fake.empty_strided = [](std::int64_t, const std::int64_t*, const std::int64_t*,
                          std::int32_t dtype, std::int32_t device, std::int32_t index,
                          Tensor* tensor) -> Failure {
    *tensor = NewTensor({{}, {}, {}, nullptr, dtype, true, device});
    behaviour.made.push_back({nullptr, device, index});
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
  fake.get_layout = [](Tensor, std::int32_t* number) -> Failure {
    *number = 0;
    return 0;
  };
  fake.get_device_type = [](Tensor tensor, std::int32_t* number) -> Failure {
    *number = AsFake(tensor)->device;
    return 0;
  };
  fake.is_defined = [](Tensor tensor, bool* is_defined) -> Failure {
    *is_defined = AsFake(tensor)->is_defined;
    return 0;
  };
  fake.grad_mode_is_enabled = [] { return true; };
  fake.grad_mode_set_enabled = [](bool) {};
  fake.exception_get_what_without_backtrace = [] {
    return behaviour.finds_no_schema ? "Could not find schema for aten::x"
                                     : behaviour.words.c_str();
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

}  // namespace opgraft::aten
