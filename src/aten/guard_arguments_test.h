// Builds named arguments, for tests of guards.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aten/gpu_rules.h"
#include "aten/guards.h"

namespace opgraft::aten {

constexpr int kFloat32 = 1;
constexpr int kInt32 = 6;
constexpr int kDouble = 11;

/// Tensors and numbers by their names.
class Arguments {
 public:
  Arguments& Add(const std::string& name, std::vector<std::int64_t> shape,
                 std::vector<std::int64_t> numbers, int element_type = kInt64) {
    AddWritten(name, AddTensor(std::move(shape), element_type));
    std::vector<char>& bytes = tensors_.back().bytes;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (element_type == kInt32) {
        const auto number = static_cast<std::int32_t>(numbers[i]);
        std::memcpy(bytes.data() + i * sizeof(number), &number, sizeof(number));
      } else {
        std::memcpy(bytes.data() + i * sizeof(numbers[i]), &numbers[i], sizeof(numbers[i]));
      }
    }
    return *this;
  }

  Arguments& AddReals(const std::string& name, std::vector<std::int64_t> shape,
                      const std::vector<double>& numbers, bool is_complex = false) {
    Written written = AddTensor(std::move(shape), kDouble);
    if (is_complex) written.form = Form::kComplexTensor;
    AddWritten(name, written);
    if (numbers.empty()) return *this;
    std::memcpy(tensors_.back().bytes.data(), numbers.data(), numbers.size() * sizeof(double));
    return *this;
  }

  Arguments& AddComplex(const std::string& name, std::vector<std::int64_t> shape) {
    return AddReals(name, std::move(shape), {}, true);
  }

  /// A tensor of floats of which only the shape matters.
  Arguments& AddShape(const std::string& name, std::vector<std::int64_t> shape,
                      int element_type = kFloat32) {
    return Add(name, std::move(shape), {}, element_type);
  }

  Arguments& AddShapes(const std::string& name, std::vector<std::vector<std::int64_t>> shapes) {
    Written list;
    list.form = Form::kList;
    for (auto& shape : shapes) list.items.push_back(AddTensor(std::move(shape), kFloat32));
    return AddWritten(name, list);
  }

  Arguments& Add(const std::string& name, std::int64_t number) {
    Written written;
    written.form = Form::kInt;
    written.integer = number;
    return AddWritten(name, written);
  }

  Arguments& AddReal(const std::string& name, double number) {
    Written written;
    written.form = Form::kFloat;
    written.real = number;
    return AddWritten(name, written);
  }

  Arguments& AddText(const std::string& name, const std::string& text) {
    Written written;
    written.form = Form::kText;
    written.text = text;
    return AddWritten(name, written);
  }

  Arguments& AddNumbers(const std::string& name, const std::vector<std::int64_t>& numbers) {
    Written list;
    list.form = Form::kList;
    for (const std::int64_t number : numbers) {
      list.items.emplace_back().form = Form::kInt;
      list.items.back().integer = number;
    }
    return AddWritten(name, list);
  }

  Arguments& AddTruths(const std::string& name, std::vector<std::int64_t> shape,
                       const std::vector<bool>& truths) {
    AddWritten(name, AddTensor(std::move(shape), kBool));
    std::copy(truths.begin(), truths.end(), tensors_.back().bytes.begin());
    return *this;
  }

  /// An element of a list of indices: absent, or a tensor with a shape and numbers.
  struct IndexTensor {
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> numbers;
    int element_type = kInt64;
  };
  using Index = std::optional<IndexTensor>;

  Arguments& AddIndices(const std::string& name, const std::vector<Index>& indices) {
    Written list;
    list.form = Form::kList;
    for (const Index& index : indices) {
      list.items.push_back(index ? AddTensor(index->shape, index->element_type) : Written());
      if (!index || index->numbers.empty()) continue;
      std::memcpy(tensors_.back().bytes.data(), index->numbers.data(),
                  index->numbers.size() * sizeof(std::int64_t));
    }
    return AddWritten(name, list);
  }

  /// The tensors are on a GPU, without copies on the CPU.
  void HideFromHost() { are_hidden_ = true; }

  /// The node declares that the result is a list of so many tensors.
  Arguments& Say(std::size_t parts) {
    parts_ = parts;
    return *this;
  }

  /// Returns what the guard returns.
  std::string Check(const char* operator_name) const {
    const std::vector<InputTensor> inputs = Inputs();
    return FindGuard(operator_name)(NamedArguments(names_, written_, inputs, parts_));
  }

  /// The same for the check on a GPU.
  std::string CheckOnGpu(const char* operator_name) const {
    Schema schema;
    schema.name = operator_name;
    const std::vector<InputTensor> inputs = Inputs();
    return FindGpuRule(schema).guard(NamedArguments(names_, written_, inputs));
  }

  bool Pass(const char* operator_name) const { return Check(operator_name).empty(); }

 private:
  struct Held {
    std::vector<std::int64_t> shape;
    std::vector<char> bytes;
    int element_type;
  };

  std::vector<InputTensor> Inputs() const {
    std::vector<InputTensor> inputs;
    for (const Held& one : tensors_) {
      inputs.push_back({const_cast<char*>(one.bytes.data()), one.element_type, one.shape});
      inputs.back().is_on_gpu = are_hidden_;
    }
    return inputs;
  }

  Written AddTensor(std::vector<std::int64_t> shape, int element_type) {
    Written written;
    written.form = Form::kTensor;
    written.integer = static_cast<std::int64_t>(tensors_.size());
    // Exactly as many bytes as the tensor has, so that sanitizers find reads beyond it.
    const std::size_t size = element_type == kBool                                ? 1
                             : element_type == kFloat32 || element_type == kInt32 ? 4
                                                                                  : 8;
    std::vector<char> bytes(Count(shape) * size);
    tensors_.push_back({std::move(shape), std::move(bytes), element_type});
    return written;
  }

  Arguments& AddWritten(const std::string& name, Written written) {
    names_.push_back(name);
    written_.push_back(std::move(written));
    return *this;
  }

  std::vector<std::string> names_;
  std::vector<Written> written_;
  std::vector<Held> tensors_;
  bool are_hidden_ = false;
  std::size_t parts_ = 0;
};

}  // namespace opgraft::aten
