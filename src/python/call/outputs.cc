// The checks that every returned value must pass, whatever kind of array it is.
#include "python/call/outputs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {

bool Fits(std::span<const std::int64_t> shape, std::span<const std::int64_t> declared) {
  const auto fits = [](std::int64_t size, std::int64_t expected) {
    return expected == kUnknown || expected == size;
  };
  return std::equal(shape.begin(), shape.end(), declared.begin(), declared.end(), fits);
}

Status OutputStore::MakeOut(Arguments* arguments) {
  for (std::size_t i = 0; i < spec_.output_types.size(); ++i) {
    const DeclaredShape& shape = inferred_->outputs[i];
    if (!shape || std::find(shape->begin(), shape->end(), kUnknown) != shape->end()) {
      return Status::PyOp(spec_.Who() +
                          ": it takes 'out', but its shape rule does not give the "
                          "shape of output " +
                          std::to_string(i));
    }
    if (Status status = CheckShape(i, *shape, nullptr); !status.ok()) return status;
    void* memory = nullptr;
    Status status = call_.Allocate(i, *shape, &memory);
    if (!status.ok()) {
      return Status(status.kind(), spec_.Who() + ": output " + std::to_string(i) +
                                       ", whose shape is (" + DimensionsText(*shape) +
                                       ") by its shape rule: " + status.message());
    }
    out_.push_back({memory, spec_.output_types[i], *shape});
    PyObject* array = MakeOutArray(out_.back());
    if (array == nullptr) return Failure(true).ToStatus(spec_.Who() + ": the array of 'out'", true);
    arguments->Add(array);
  }
  return Status();
}

Status OutputStore::Store(PyObject* returned, std::span<PyObject* const> out) const {
  const std::size_t expected = spec_.output_types.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (IsIntact(out[i], out_[i])) continue;
    return Status::PyOp(spec_.Who() + ": the operator has changed the memory, type or shape of " +
                        "'out' for output " + std::to_string(i) +
                        ". Fix: write its elements only, as in out[...] = value");
  }
  const auto store = [&](std::size_t index, PyObject* value, bool is_ours) {
    if (index >= out.size()) return StoreOne(index, value, is_ours);
    const bool is_written = value == out[index] || value == Py_None;
    return is_written ? Status() : StoreIntoOut(index, value, out[index]);
  };
  const bool is_tuple = PyTuple_Check(returned);
  if (!out.empty() && returned == Py_None) return Status();
  if (expected == 1 && !is_tuple) return store(0, returned, Py_REFCNT(returned) == 1);
  if (expected == 0 && returned == Py_None) return Status();
  const bool is_sequence = is_tuple || PyList_Check(returned);
  if (!is_sequence || static_cast<std::size_t>(Py_SIZE(returned)) != expected) {
    return Status::PyOp(spec_.Who() + ": expected " + spec_.Callee() + " to return " +
                        (expected == 1
                             ? "one array"
                             : "a tuple of " + std::to_string(expected) + " arrays, one for each " +
                                   (spec_.IsDeclared() ? "output" : "of 'output_types'")) +
                        ", but it returned " + Describe(returned) + ". Fix: return as many as " +
                        (spec_.IsDeclared() ? "its signature has outputs"
                                            : "the node has outputs, or give the node as many "
                                              "outputs and 'output_types'"));
  }
  const bool is_list_ours = Py_REFCNT(returned) == 1;
  std::vector<nb::object> values;
  for (std::size_t i = 0; i < expected; ++i) {
    nb::object value = nb::steal(PySequence_GetItem(returned, static_cast<Py_ssize_t>(i)));
    // The array returned for one output may be a view of another's `out`, which is written first.
    const bool may_overlap = i < out.size() && value.is_valid() && value.ptr() != out[i];
    if (may_overlap) value = nb::steal(CopyOf(value.ptr()));
    if (!value.is_valid()) {
      return Failure(keep_frames_).ToStatus(spec_.Who() + ": its list of outputs", true);
    }
    values.push_back(std::move(value));
  }
  for (std::size_t i = 0; i < expected; ++i) {
    PyObject* const value = values[i].ptr();
    Status status = store(i, value, is_list_ours && Py_REFCNT(value) == 2);
    if (!status.ok()) return status;
  }
  return Status();
}

Status OutputStore::CheckShape(std::size_t index, std::span<const std::int64_t> shape,
                               PyObject* value) const {
  const auto refuse = [&](const DeclaredShape& expected, const std::string& source,
                          const std::string& fix) {
    const std::string got = value != nullptr
                                ? spec_.Callee() + " returned " + Describe(value)
                                : "its shape rule gives (" + DimensionsText(shape) + ")";
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) +
                        ": expected an array of shape (" + DimensionsText(*expected) + "), as " +
                        source + ", but " + got + ". Fix: " + fix);
  };
  if (index < spec_.output_shapes.size()) {
    const DeclaredShape& declared = spec_.output_shapes[index];
    if (declared && !Fits(shape, *declared)) {
      return refuse(declared, "the model declares",
                    "return that shape, or declare another one in the model");
    }
  }
  if (value == nullptr || inferred_ == nullptr) return Status();
  const DeclaredShape& inferred = inferred_->outputs[index];
  if (!inferred || Fits(shape, *inferred)) return Status();
  return refuse(inferred, "its shape rule says", "fix the rule or the operator");
}

Status OutputStore::Unexpected(std::size_t index, PyObject* value, const std::string& expected,
                               const std::string& fix, const std::string& problem) const {
  return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) + ": expected " + expected +
                      ", but " + spec_.Callee() + " returned " + Describe(value) +
                      (problem.empty() ? "" : ": " + problem) + ". Fix: " + fix);
}

Status OutputStore::Allocate(std::size_t index, std::span<const std::int64_t> shape,
                             PyObject* value, void** memory) const {
  return Named(call_.Allocate(index, shape, memory), index, value);
}

Status OutputStore::Named(const Status& status, std::size_t index, PyObject* value) const {
  if (status.ok()) return status;
  return Status(status.kind(), spec_.Who() + ": output " + std::to_string(index) + ", for which " +
                                   spec_.Callee() + " returned " + Describe(value) + ": " +
                                   status.message());
}

}  // namespace opgraft::pyop
