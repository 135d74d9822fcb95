// Makes the arguments for a pack's operator from Python values and NumPy arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/memory_host.h"
#include "core/schema.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"
#include "python/call/arrays.h"

// Everything here needs the GIL.
namespace opgraft::pyop {

/// An array as a tensor of opgraft/c_api.h; a copy if its elements are not contiguous.
class ArrayTensor {
 public:
  /// Returns an error that begins with `what` if the value cannot become a tensor.
  Status Take(const nanobind::object& value, const std::string& what);
  const OpgraftTensor& tensor() const { return tensor_; }

 private:
  Status TakeTexts(const std::string& what);
  Status TakeElements();

  ReturnedArray array_;
  std::vector<std::int64_t> shape_;
  std::vector<std::byte> copy_;
  std::vector<nanobind::object> owners_;
  std::vector<OpgraftText> texts_;
  OpgraftTensor tensor_ = {};
};

/// The attributes of a call, and the memory that they point to.
class NativeArguments {
 public:
  Status Read(const Schema& schema, const nanobind::dict& given);
  const GivenAttributes& get() const { return attributes_; }

 private:
  struct Memory {
    std::vector<float> floats;
    std::vector<std::int64_t> integers;
    std::vector<std::string> strings;
    std::vector<OpgraftText> texts;
    ArrayTensor tensor;
  };

  Status Add(const std::string& name, int kind, const nanobind::object& value);

  std::deque<Memory> memories_;
  GivenAttributes attributes_;
};

}  // namespace opgraft::pyop
