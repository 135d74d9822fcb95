// Checks the types of arrays on a GPU and copies them there.
#include "python/gpu/gpu_outputs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/element_type.h"
#include "python/call/arrays.h"
#include "python/call/dlpack_tensors.h"
#include "python/call/failure.h"
#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

std::size_t Elements(std::span<const std::int64_t> shape) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

/// Returns the addresses of the first and the last byte of an array's elements.
std::pair<std::uintptr_t, std::uintptr_t> Range(const dlpack::Tensor& tensor) {
  const auto start = reinterpret_cast<std::uintptr_t>(eager::DataOf(tensor));
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t stride = 1;
  for (std::int32_t axis = tensor.rank - 1; axis >= 0; --axis) {
    const std::int64_t step = tensor.strides != nullptr ? tensor.strides[axis] : stride;
    const std::int64_t reach = (tensor.shape[axis] - 1) * step;
    (reach < 0 ? first : last) += reach;
    stride *= tensor.shape[axis];
  }
  const auto size = static_cast<std::int64_t>(tensor.type.bits / 8);
  return {start + static_cast<std::uintptr_t>(first * size),
          start + static_cast<std::uintptr_t>((last + 1) * size - 1)};
}

bool Overlap(const dlpack::Tensor& one, const dlpack::Tensor& other) {
  const auto [first, last] = Range(one);
  const auto [other_first, other_last] = Range(other);
  return first <= other_last && other_first <= last;
}

}  // namespace

GpuOutputs::~GpuOutputs() {
  for (void* memory : scratch_) gpu_.Free(memory);
}

PyObject* GpuOutputs::MakeOutArray(const TensorView& tensor) {
  TensorView lent = tensor;
  const std::size_t elements = Elements(tensor.shape);
  if (tensor.data == nullptr && elements > 0) {
    lent.data = gpu_.Allocate(FindElementType(tensor.element_type)->PackedSize(elements));
    if (lent.data == nullptr) {
      PyErr_SetString(PyExc_MemoryError, "the GPU is out of memory");
      return nullptr;
    }
    scratch_.push_back(lent.data);
  }
  return library_.Lend(lent, loan_);
}

bool GpuOutputs::IsIntact(PyObject* array, const TensorView& tensor) const {
  ArrayLook look;
  if (!library_.Look(array, &look)) return false;
  const std::span<const std::int64_t> shape = eager::ShapeOf(look.tensor);
  const bool has_memory = tensor.data == nullptr || Elements(tensor.shape) == 0 ||
                          eager::DataOf(look.tensor) == tensor.data;
  return has_memory && library_.IsHere(look.tensor) && eager::IsContiguous(look.tensor) &&
         eager::ElementTypeOf(look.tensor.type) == tensor.element_type &&
         std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end());
}

PyObject* GpuOutputs::CopyOf(PyObject* value) const {
  return library_.IsArray(value) ? library_.Copy(value) : Py_NewRef(value);
}

std::string GpuOutputs::Describe(PyObject* value) const {
  if (library_.IsArray(value)) return library_.Describe(value);
  const bool is_numpys = TypeNameOf(value) == "numpy.ndarray";
  return pyop::Describe(value) + (is_numpys ? " of NumPy's" : "");
}

Status GpuOutputs::StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const {
  ArrayLook look;
  ArrayLook own;
  const bool is_array = library_.IsArray(value) && library_.Look(value, &look) &&
                        library_.IsHere(look.tensor) && library_.Look(out, &own);
  const bool fits = is_array &&
                    eager::ElementTypeOf(look.tensor.type) == spec_.output_types[index] &&
                    std::ranges::equal(eager::ShapeOf(look.tensor), eager::ShapeOf(own.tensor));
  if (!fits) {
    return Status::PyOp(spec_.Who() + ": output " + std::to_string(index) +
                        ": expected None, 'out', or " + Describe(out) + ", but " + spec_.Callee() +
                        " returned " + Describe(value));
  }
  nb::object source = nb::borrow(value);
  if (Overlap(look.tensor, own.tensor)) source = nb::steal(library_.Copy(value));
  return source.is_valid() && library_.Assign(out, source.ptr()) ? Status() : CopyFailed();
}

Status GpuOutputs::StoreOne(std::size_t index, PyObject* value, bool) const {
  const std::int64_t type = spec_.output_types[index];
  if (value == Py_None) {
    bool is_unwanted = false;
    const Status status = call_.IsUnwanted(index, &is_unwanted);
    if (!status.ok() || is_unwanted) return status;
  }
  const std::string expected = library_.Expected(type);
  ArrayLook look;
  if (!library_.IsArray(value)) {
    return Unexpected(index, value, expected,
                      value == Py_None ? "give every path through the function a return statement"
                                       : "return " + expected);
  }
  if (!library_.Look(value, &look)) {
    return Unexpected(index, value, expected, library_.HowTo("how_to_be_plain"));
  }
  if (!library_.IsHere(look.tensor)) {
    return Unexpected(index, value, expected, library_.HowTo("how_to_move"));
  }
  if (eager::ElementTypeOf(look.tensor.type) != type) {
    return Unexpected(index, value, expected,
                      "return " + library_.HowTo("how_to_convert", ElementTypeName(type)) +
                          ", or annotate the output with the other type");
  }
  const std::span<const std::int64_t> shape = eager::ShapeOf(look.tensor);
  if (Status status = CheckShape(index, shape, value); !status.ok()) return status;
  void* memory = nullptr;
  Status status = Allocate(index, shape, value, &memory);
  if (!status.ok() || memory == nullptr || Elements(shape) == 0) return status;
  if (eager::IsContiguous(look.tensor) && library_.IsPlain(value)) {
    const std::size_t bytes = FindElementType(type)->PackedSize(Elements(shape));
    return Named(gpu_.Copy(memory, eager::DataOf(look.tensor), bytes), index, value);
  }
  const nb::object target = nb::steal(library_.Lend({memory, type, shape}, loan_));
  return target.is_valid() && library_.Assign(target.ptr(), value) ? Status() : CopyFailed();
}

Status GpuOutputs::CopyFailed() const {
  return Failure(keep_frames_).ToStatus(spec_.Who() + ": the copy of an output", true);
}

}  // namespace opgraft::pyop
