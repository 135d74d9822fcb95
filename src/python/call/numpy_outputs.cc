// Checks the types of NumPy arrays and copies them.
#include "python/call/numpy_outputs.h"

#include <cstring>
#include <vector>

#include "base/element_type.h"
#include "python/call/arrays.h"
#include "python/call/exit_gate.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Copying a smaller output takes less time than releasing and reacquiring the GIL.
constexpr std::size_t kBytesWorthReleasing = 256UL * 1024;

}  // namespace

PyObject* NumPyOutputs::MakeOutArray(const TensorView& tensor) {
  return pyop::MakeOutArray(tensor);
}

bool NumPyOutputs::IsIntact(PyObject* array, const TensorView& tensor) const {
  return pyop::IsIntact(array, tensor);
}

PyObject* NumPyOutputs::CopyOf(PyObject* value) const { return pyop::CopyOf(value); }

std::string NumPyOutputs::Describe(PyObject* value) const { return pyop::Describe(value); }

Status NumPyOutputs::StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const {
  ReturnedArray array;
  const std::int64_t type = spec_.output_types[index];
  const bool fits = array.Take(value) && array.HasType(type) && array.HasShapeOf(out);
  if (!fits) {
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) +
                        ": expected None, 'out', or " + Describe(out) + ", but " + spec_.Callee() +
                        " returned " + Describe(value));
  }
  if (array.CopyTo(out)) return Status();
  return Failure(keep_frames_).ToStatus(spec_.Who() + ": the copy of an output", true);
}

Status NumPyOutputs::StoreOne(std::size_t index, PyObject* value, bool is_ours) const {
  const std::int64_t type = spec_.output_types[index];
  const auto array_of_type = [&] {
    return type == kString ? std::string("an array of str")
                           : "a NumPy array of " + ElementTypeName(type);
  };
  ReturnedArray array;
  if (!array.Take(value)) {
    if (value == Py_None) {
      bool is_unwanted = false;
      const Status status = call_.IsUnwanted(index, &is_unwanted);
      if (!status.ok() || is_unwanted) return status;
    }
    std::string problem;
    if (!array.TakePlain(value, type, &problem)) {
      return Unexpected(index, value, array_of_type(), HowToReturn(value, DtypeName(type)),
                        problem);
    }
  }
  if (!array.HasType(type)) {
    return Unexpected(index, value, array_of_type(),
                      "return value.astype(" + DtypeName(type) + "), or " +
                          (spec_.IsDeclared() ? "annotate the output with the other type"
                                              : "declare the other type in 'output_types'"));
  }
  if (Status status = CheckShape(index, array.shape(), value); !status.ok()) return status;
  void* memory = nullptr;
  Status status;
  if (type == kString) {
    std::vector<nb::object> owners;
    std::vector<std::string_view> strings;
    std::string problem;
    if (!array.ReadStrings(&owners, &strings, &problem)) {
      return Unexpected(index, value, array_of_type(), "make every element a str", problem);
    }
    status = Named(call_.StoreStrings(index, array.shape(), strings), index, value);
  } else {
    status = Allocate(index, array.shape(), value, &memory);
  }
  if (!status.ok() || memory == nullptr) return status;
  const std::span<const std::byte> block =
      FindElementType(type)->IsPacked() ? std::span<const std::byte>() : array.block();
  if (block.size() >= kBytesWorthReleasing && is_ours && array.OwnsItsMemory()) {
    WithoutGil([&] { std::memcpy(memory, block.data(), block.size()); });
  } else if (!block.empty()) {
    std::memcpy(memory, block.data(), block.size());
  } else if (!array.CopyTo(type, memory)) {
    return Failure(keep_frames_).ToStatus(spec_.Who() + ": the copy of an output", true);
  }
  return Status();
}

}  // namespace opgraft::pyop
