// Converts between NumPy arrays and Python values, and the structs of opgraft/c_api.h.
#include "python/module/native_calls.h"

#include <nanobind/stl/string.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/element_type.h"
#include "core/memory_host.h"
#include "core/packs.h"
#include "core/shipped_packs.h"
#include "python/call/arrays.h"
#include "python/call/exit_gate.h"
#include "python/call/failure.h"
#include "python/call/native_arguments.h"
#include "python/call/shapes.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

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
  if (schema == nullptr) status = ShippedPacks().Find(full_name, full_name, version, &schema);
  if (!status.ok()) Raise(status);
  if (schema == nullptr) Raise(Status::Error("no pack declares " + full_name));
  return schema;
}

}  // namespace

nb::list RunOperator(const std::string& full_name, std::int64_t version, const nb::list& inputs,
                     const nb::dict& attributes, std::size_t outputs) {
  const std::shared_ptr<const Schema> schema = Find(full_name, version);
  NativeArguments arguments;
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
        static_cast<void>(FindArrays(type));  // imports ml_dtypes for the types that need it
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
  NativeArguments arguments;
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
