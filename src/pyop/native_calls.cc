// Between NumPy arrays and Python values on one side, and opgraft/c_api.h on the other.
#include "pyop/native_calls.h"

#include <nanobind/stl/string.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/element_type.h"
#include "core/memory_host.h"
#include "core/packs.h"
#include "model/onnx_tags.h"
#include "pyop/arrays.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/shapes.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

namespace tag = model::tag;

/// An array as a tensor of the contract; a copy where its elements do not lie in one block.
class ArrayTensor {
 public:
  /// An UnavailableError or a plain one where it cannot be a tensor.
  Status Take(const nb::object& value, const std::string& what) {
    if (!array_.Take(value.ptr())) {
      return Status::Error(what + " is " + Describe(value.ptr()) + ", expected an array");
    }
    std::int32_t type = 0;
    for (std::int32_t number = 1; number <= kLastType && type == 0; ++number) {
      if (HasArrays(number) && array_.HasType(number)) type = number;
    }
    if (type == 0) {
      return Status::Error(what + " is " + Describe(value.ptr()) + ", of no type that ONNX has");
    }
    shape_.assign(array_.shape().begin(), array_.shape().end());
    tensor_ = {nullptr, shape_.data(), shape_.size(), type};
    return type == kString ? TakeTexts(what) : TakeElements(*FindElementType(type));
  }

  const OpgraftTensor& tensor() const { return tensor_; }

 private:
  static constexpr std::int32_t kLastType = 23;

  Status TakeTexts(const std::string& what) {
    std::vector<std::string_view> strings;
    std::string problem;
    if (!array_.ReadStrings(&owners_, &strings, &problem)) {
      return Status::Error(what + ": " + problem);
    }
    for (const std::string_view text : strings) texts_.push_back({text.data(), text.size()});
    texts_.push_back({});  // so that there is memory for none
    tensor_.data = texts_.data();
    return Status();
  }
  Status TakeElements(const ElementType& type) {
    std::size_t elements = 1;
    for (const std::int64_t size : shape_) elements *= static_cast<std::size_t>(size);
    const std::span<const std::byte> block = array_.block();
    if (!block.empty() && !type.IsPacked()) {
      tensor_.data = const_cast<std::byte*>(block.data());
      return Status();
    }
    copy_.resize(type.PackedSize(elements) + 1);
    if (elements > 0 && !array_.CopyTo(tensor_.element_type, copy_.data()))
      throw nb::python_error();
    tensor_.data = copy_.data();
    return Status();
  }

  ReturnedArray array_;
  std::vector<std::int64_t> shape_;
  std::vector<std::byte> copy_;
  std::vector<nb::object> owners_;
  std::vector<OpgraftText> texts_;
  OpgraftTensor tensor_ = {};
};

/// The attributes of a call, and the memory that they point to.
class Arguments {
 public:
  Status Read(const Schema& schema, const nb::dict& given) {
    for (const auto& [key, value] : given) {
      const auto name = nb::cast<std::string>(key);
      const AttributeParameter* known = nullptr;
      for (const AttributeParameter& one : schema.attributes) {
        if (one.name == name) known = &one;
      }
      if (known == nullptr) {
        return Status::Model(schema.FullName() + ": it has no attribute '" + name + "'");
      }
      Status status = Add(name, static_cast<int>(known->type), nb::borrow(value));
      if (!status.ok()) return Status(status.kind(), schema.FullName() + ": " + status.message());
    }
    return Status();
  }
  const GivenAttributes& get() const { return attributes_; }

 private:
  struct Memory {
    std::vector<float> floats;
    std::vector<std::int64_t> integers;
    std::vector<std::string> strings;
    std::vector<OpgraftText> texts;
    ArrayTensor tensor;
  };

  static std::string ToString(const nb::handle& value) {
    if (nb::isinstance<nb::bytes>(value)) {
      const auto bytes = nb::cast<nb::bytes>(value);
      return {bytes.c_str(), bytes.size()};
    }
    return nb::cast<std::string>(value);
  }

  Status Add(const std::string& name, int kind, const nb::object& value) {
    Memory& memory = memories_.emplace_back();
    OpgraftAttribute attribute = {};
    attribute.kind = kind;
    attribute.count = 1;
    try {
      switch (kind) {
        case tag::kFloat: memory.floats = {nb::cast<float>(value)}; break;
        case tag::kInt: memory.integers = {nb::cast<std::int64_t>(value)}; break;
        case tag::kString: memory.strings = {ToString(value)}; break;
        case tag::kFloats:
          for (const nb::handle one : value) memory.floats.push_back(nb::cast<float>(one));
          attribute.count = memory.floats.size();
          break;
        case tag::kInts:
          for (const nb::handle one : value) {
            memory.integers.push_back(nb::cast<std::int64_t>(one));
          }
          attribute.count = memory.integers.size();
          break;
        case tag::kStrings:
          for (const nb::handle one : value) memory.strings.push_back(ToString(one));
          attribute.count = memory.strings.size();
          break;
        case tag::kTensor: {
          Status status = memory.tensor.Take(value, "attribute '" + name + "'");
          if (!status.ok()) return status;
          attribute.tensors = &memory.tensor.tensor();
          break;
        }
        default: return Status::Error("attribute '" + name + "' is of an unknown kind");
      }
    } catch (const nb::cast_error&) {
      return Status::Model("attribute '" + name + "' is " + Describe(value.ptr()) +
                           ", which is not of the kind declared");
    }
    for (const std::string& text : memory.strings) {
      memory.texts.push_back({text.data(), text.size()});
    }
    attribute.floats = memory.floats.data();
    attribute.integers = memory.integers.data();
    attribute.texts = memory.texts.data();
    attributes_[name] = attribute;
    return Status();
  }

  std::deque<Memory> memories_;
  GivenAttributes attributes_;
};

/// Keeps outputs until the GIL is held again.
class Received final : public OutputReceiver {
 public:
  explicit Received(std::size_t outputs) : outputs_(outputs) {}

  void* Allocate(std::size_t index, std::int32_t element_type,
                 std::span<const std::int64_t> shape) override {
    Kept& kept = outputs_[index];
    kept.element_type = element_type;
    kept.shape.assign(shape.begin(), shape.end());
    std::size_t size = FindElementType(element_type)->size;
    for (const std::int64_t one : shape) {
      if (__builtin_mul_overflow(size, static_cast<std::size_t>(one), &size)) return nullptr;
    }
    kept.bytes.reset(new (std::nothrow) std::byte[size + 1]);
    return kept.bytes.get();
  }
  void Store(std::size_t index, std::span<const std::int64_t> shape,
             std::span<const OpgraftText> texts) override {
    Kept& kept = outputs_[index];
    kept.element_type = kString;
    kept.shape.assign(shape.begin(), shape.end());
    for (const OpgraftText& text : texts) kept.texts.emplace_back(text.data, text.size);
  }

  nb::list ToArrays() const {
    nb::list arrays;
    for (const Kept& kept : outputs_) {
      if (kept.element_type == 0) {
        arrays.append(nb::none());
        continue;
      }
      PyObject* made = nullptr;
      if (kept.element_type == kString) {
        const std::vector<std::string_view> views(kept.texts.begin(), kept.texts.end());
        made = MakeStrings(kept.shape, views);
      } else {
        made = MakeCopy({kept.bytes.get(), kept.element_type, kept.shape});
      }
      if (made == nullptr) throw nb::python_error();
      arrays.append(nb::steal(made));
    }
    return arrays;
  }

 private:
  struct Kept {
    std::int32_t element_type = 0;
    std::vector<std::int64_t> shape;
    std::unique_ptr<std::byte[]> bytes;
    std::vector<std::string> texts;
  };
  std::vector<Kept> outputs_;
};

std::shared_ptr<const Schema> Find(const std::string& full_name, std::int64_t version) {
  std::shared_ptr<const Schema> schema;
  Status status = Packs::OfThisProcess().Find(full_name, full_name, version, &schema);
  if (!status.ok()) Raise(status);
  if (schema == nullptr) Raise(Status::Error("no pack has " + full_name));
  return schema;
}

}  // namespace

nb::list RunOperator(const std::string& full_name, std::int64_t version, const nb::list& inputs,
                     const nb::dict& attributes, std::size_t outputs) {
  const std::shared_ptr<const Schema> schema = Find(full_name, version);
  Arguments arguments;
  Status status = arguments.Read(*schema, attributes);
  std::deque<ArrayTensor> arrays;
  std::vector<OpgraftTensor> tensors;
  for (std::size_t i = 0; i < inputs.size() && status.ok(); ++i) {
    ArrayTensor& array = arrays.emplace_back();
    if (!inputs[i].is_none()) {
      status = array.Take(nb::borrow(inputs[i]), full_name + ": input " + std::to_string(i));
    }
    tensors.push_back(array.tensor());
  }
  if (status.ok()) {
    for (const Parameter& output : schema->outputs) {
      for (const std::int64_t type : schema->types[output.type].allowed) {
        static_cast<void>(FindArrays(type));  // ml_dtypes is imported for those that need it
      }
    }
  }
  while (!tensors.empty() && tensors.back().element_type == 0) tensors.pop_back();
  Received received(outputs);
  if (status.ok()) {
    WithoutGil([&] {
      try {
        status = RunNative(*schema, tensors, outputs, arguments.get(), received);
      } catch (const std::bad_alloc&) {
        status = Status::Error(full_name + ": out of memory");
      }
    });
  }
  if (!status.ok()) Raise(status);
  return received.ToArrays();
}

nb::list InferOperator(const std::string& full_name, std::int64_t version, const nb::list& inputs,
                       const nb::dict& attributes, std::size_t outputs) {
  const std::shared_ptr<const Schema> schema = Find(full_name, version);
  Arguments arguments;
  Status status = arguments.Read(*schema, attributes);
  std::deque<ArrayTensor> arrays;
  std::vector<KnownValue> known;
  for (std::size_t i = 0; i < inputs.size() && status.ok(); ++i) {
    KnownValue& value = known.emplace_back();
    if (inputs[i].is_none()) continue;
    const nb::object input = nb::borrow(inputs[i]);
    value.element_type = nb::cast<std::int32_t>(input[0]);
    value.shape = ToShape(nb::object(input[1]));
    if (nb::object(input[2]).is_none()) continue;
    status = arrays.emplace_back().Take(nb::object(input[2]), "a constant");
    value.constant = arrays.back().tensor();
  }
  while (!known.empty() && known.back().element_type == 0) known.pop_back();
  std::vector<KnownValue> inferred;
  if (status.ok()) status = InferNative(*schema, known, outputs, arguments.get(), &inferred);
  if (!status.ok()) Raise(status);
  nb::list result;
  for (const KnownValue& value : inferred) {
    const nb::object shape = value.shape ? ToPython(value.shape) : nb::none();
    result.append(nb::make_tuple(value.element_type, shape));
  }
  return result;
}

}  // namespace opgraft::pyop
