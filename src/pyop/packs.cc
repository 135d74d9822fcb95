// Between NumPy arrays and Python values on one side, and opgraft/c_api.h on the other.
#include "pyop/packs.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/element_type.h"
#include "core/memory_host.h"
#include "core/packs.h"
#include "core/text.h"
#include "pyop/arrays.h"
#include "pyop/declarations.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/shapes.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

// Kinds of AttributeProto.AttributeType.
enum Kind : int {
  kFloat = 1,
  kInt = 2,
  kText = 3,
  kTensor = 4,
  kFloats = 6,
  kInts = 7,
  kTexts = 8
};

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
        case kFloat: memory.floats = {nb::cast<float>(value)}; break;
        case kInt: memory.integers = {nb::cast<std::int64_t>(value)}; break;
        case kText: memory.strings = {ToString(value)}; break;
        case kFloats:
          for (const nb::handle one : value) memory.floats.push_back(nb::cast<float>(one));
          attribute.count = memory.floats.size();
          break;
        case kInts:
          for (const nb::handle one : value) {
            memory.integers.push_back(nb::cast<std::int64_t>(one));
          }
          attribute.count = memory.integers.size();
          break;
        case kTexts:
          for (const nb::handle one : value) memory.strings.push_back(ToString(one));
          attribute.count = memory.strings.size();
          break;
        case kTensor: {
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

nb::list Run(const std::string& full_name, std::int64_t version, const nb::list& inputs,
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

/// Each input is None, or its type, its shape (None, or a tuple of int, str and None) and its value
/// (an array, or None).
nb::list Infer(const std::string& full_name, std::int64_t version, const nb::list& inputs,
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

void Load(const nb::bytes& path) {
  const Status status = Packs::OfThisProcess().Load(
      std::string(path.c_str(), path.size()), [](std::string_view full_name) -> std::string {
        const std::shared_ptr<const Schema> declared = FindDeclared(full_name);
        return declared != nullptr ? "the Python module '" + declared->module + "'" : "";
      });
  if (!status.ok()) Raise(status);
}

nb::object Text(const char* text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
}

nb::list ToList(const OpgraftParameter* parameters, std::size_t count) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) {
    const OpgraftParameter& one = parameters[i];
    list.append(nb::make_tuple(Text(one.name), Text(one.description), one.occurrence, one.type,
                               one.minimum));
  }
  return list;
}

/// The default of an attribute as a Python value; None where there is none.
nb::object ToPython(const OpgraftAttribute& value) {
  nb::list list;
  switch (value.kind) {
    case kFloat: return nb::float_(value.floats[0]);
    case kInt: return nb::int_(value.integers[0]);
    case kText: return nb::bytes(value.texts[0].data, value.texts[0].size);
    case kFloats:
      for (std::size_t i = 0; i < value.count; ++i) list.append(value.floats[i]);
      return list;
    case kInts:
      for (std::size_t i = 0; i < value.count; ++i) list.append(value.integers[i]);
      return list;
    case kTexts:
      for (std::size_t i = 0; i < value.count; ++i) {
        list.append(nb::bytes(value.texts[i].data, value.texts[i].size));
      }
      return list;
    case kTensor: {
      const OpgraftTensor& tensor = *value.tensors;
      const std::span<const std::int64_t> shape(tensor.shape, tensor.rank);
      PyObject* made = nullptr;
      if (tensor.element_type == kString) {
        std::size_t elements = 1;
        for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
        std::vector<std::string_view> views;
        const auto* const texts = static_cast<const OpgraftText*>(tensor.data);
        for (std::size_t i = 0; i < elements; ++i) views.emplace_back(texts[i].data, texts[i].size);
        made = MakeStrings(shape, views);
      } else if (FindArrays(tensor.element_type).ok()) {
        made = MakeCopy({tensor.data, tensor.element_type, shape});
      }
      if (made == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      return made != nullptr ? nb::steal(made) : nb::none();
    }
    default: return nb::none();
  }
}

nb::dict ToDictionary(const Schema& schema) {
  const OpgraftOperator& declaration = *schema.native->declaration;
  nb::list types;
  for (std::size_t i = 0; i < declaration.type_count; ++i) {
    const OpgraftType& type = declaration.types[i];
    nb::list allowed;
    for (std::size_t j = 0; j < type.allowed_count; ++j) allowed.append(type.allowed[j]);
    types.append(
        nb::make_tuple(Text(type.name), Text(type.description), allowed, type.is_tied != 0));
  }
  nb::list attributes;
  for (std::size_t i = 0; i < declaration.attribute_count; ++i) {
    const OpgraftAttributeParameter& one = declaration.attributes[i];
    attributes.append(nb::make_tuple(Text(one.name), Text(one.description), one.kind,
                                     one.is_required != 0, ToPython(one.fallback)));
  }
  nb::dict result;
  result["domain"] = Text(schema.domain.c_str());
  result["name"] = Text(declaration.name);
  result["documentation"] = Text(declaration.documentation);
  result["torch_name"] = Text(declaration.torch_name);
  result["since_version"] = declaration.since_version;
  result["inputs"] = ToList(declaration.inputs, declaration.input_count);
  result["outputs"] = ToList(declaration.outputs, declaration.output_count);
  result["types"] = types;
  result["attributes"] = attributes;
  result["runtime_name"] = Text(schema.native->RuntimeFullName().c_str());
  result["has_shape_rule"] = schema.has_shape_rule;
  result["pack"] = nb::steal(PyUnicode_DecodeFSDefault(schema.native->pack.c_str()));
  return result;
}

nb::list Operators() {
  nb::list operators;
  for (const std::shared_ptr<const Schema>& schema : Packs::OfThisProcess().operators()) {
    operators.append(ToDictionary(*schema));
  }
  return operators;
}

}  // namespace

void DefinePacks(nb::module_& module) {
  module.def("load_pack", &Load, nb::arg("path"));
  module.def("has_packs", [] { return !Packs::OfThisProcess().operators().empty(); });
  module.def("pack_operators", &Operators, "What the packs that are loaded declare");
  module.def("run_native", &Run, nb::arg("full_name"), nb::arg("version"), nb::arg("inputs"),
             nb::arg("attributes"), nb::arg("outputs"));
  module.def("infer_native", &Infer, nb::arg("full_name"), nb::arg("version"), nb::arg("inputs"),
             nb::arg("attributes"), nb::arg("outputs"));
}

}  // namespace opgraft::pyop
