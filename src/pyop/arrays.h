// NumPy arrays over the runtime's memory, and out of arrays that an operator returned.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pyop/bridge.h"

// All functions here need the GIL.
namespace opgraft::pyop {

/// Loads NumPy's C API, once, before anything else here; throws nb::python_error.
void ImportNumPy();

/// Whether there are NumPy arrays of this ONNX element type.
bool HasArrays(std::int64_t element_type);

/// A read-only array over the tensor's memory, not to be used once the call is over.
/// nullptr with a Python error set where there is no memory or NumPy refuses the shape.
PyObject* MakeView(const TensorView& tensor);

/// An array with memory of its own, free to be kept and written to.
PyObject* MakeCopy(const TensorView& tensor);

/// Whether elements of this type lie in the runtime's memory as in NumPy's.
bool HasViews(std::int64_t element_type);

/// A writeable array over an output's memory, not to be used once the call is over; over memory of
/// its own where nobody wants the output.
PyObject* MakeOutArray(const TensorView& tensor);

/// Whether an array is from MakeView or MakeOutArray, over memory of the runtime's.
bool IsLent(PyObject* array);

/// Gives an array from MakeView or MakeOutArray a copy of its data. Views of it that the operator
/// has made meanwhile still point into the runtime's memory: nobody can find those.
void Detach(PyObject* view);

/// What an operator returned for one output.
class ReturnedArray {
 public:
  /// Takes an array or a NumPy scalar; false for anything else. Never follows __array_interface__
  /// and its like: what an object says about its memory may be a lie.
  bool Take(PyObject* value);

  bool HasType(std::int64_t element_type) const;
  std::span<const std::int64_t> shape() const;
  /// All elements as they are to be copied, in one block; empty where they do not lie so.
  std::span<const std::byte> block() const;
  /// It is no view of another array.
  bool OwnsItsMemory() const;
  /// Copies all elements to `memory`, in order, wherever they lie. False with a Python error set.
  bool CopyTo(std::int64_t element_type, void* memory) const;
  bool HasShapeOf(PyObject* array) const;
  /// Likewise to another array of that type and shape, of which this may be a part.
  bool CopyTo(PyObject* array) const;

 private:
  nanobind::object array_;
};

/// "a float64 array of shape (2, 3)", "None" or "a list of length 2", for messages.
std::string Describe(PyObject* value);

/// What to return instead of `value`, which is no array.
std::string HowToReturn(PyObject* value, std::string_view type_name);

}  // namespace opgraft::pyop
