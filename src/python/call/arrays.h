// NumPy arrays over the runtime's memory, and reading the arrays that an operator returned.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/bridge.h"
#include "opgraft/status.h"

// All functions here need the GIL.
namespace opgraft::pyop {

/// Loads NumPy's C API. Must be called once, before any other function here. Throws
/// nb::python_error.
void ImportNumPy();

/// Returns whether the functions below can make arrays of this ONNX element type now, without an
/// import.
bool HasArrays(std::int64_t element_type);

/// Makes HasArrays true for this element type; imports ml_dtypes if NumPy lacks the type. Returns
/// an UnavailableError that names the package to install if that fails.
Status FindArrays(std::int64_t element_type);

/// Returns "numpy.float32", "ml_dtypes.bfloat16" or "object": what an operator's code would write.
std::string DtypeName(std::int64_t element_type);

/// Returns a read-only array over the tensor's memory, which must not be used after the call, or a
/// copy if NumPy lays the elements out differently from ONNX. Not for strings.
/// Returns nullptr with a Python error set if memory runs out or NumPy refuses the shape.
PyObject* MakeView(const TensorView& tensor);

/// Like MakeView, but the memory belongs to `owner`, which the array keeps alive. `strides` count
/// elements; nullptr means that the elements are contiguous.
PyObject* MakeSharedView(const TensorView& tensor, const std::int64_t* strides, PyObject* owner);

/// Returns an array with uninitialised elements.
PyObject* MakeEmpty(std::int64_t element_type, std::span<const std::int64_t> shape);

/// Returns the memory of an array of this type if the array is contiguous and no other code can
/// reach it, so that ownership can be transferred; otherwise nullptr. `is_ours` says that the
/// caller holds the only reference to `value`.
void* FindUnshared(PyObject* value, std::int64_t element_type, bool is_ours);

/// Returns the shape as stored in the array: valid until the array changes.
std::span<const std::int64_t> ShapeOf(PyObject* array);

void* DataOf(PyObject* array);

/// Returns an array with its own memory, which an operator may keep and write to.
PyObject* MakeCopy(const TensorView& tensor);

/// Returns an array of str. Bytes that are not UTF-8 become lone surrogates, as in os.fsdecode, so
/// that an operator can return them unchanged.
PyObject* MakeStrings(std::span<const std::int64_t> shape,
                      std::span<const std::string_view> strings);

/// Returns whether the runtime and NumPy lay out elements of this type in the same way.
bool HasViews(std::int64_t element_type);

/// Returns a writeable array over an output's memory, which must not be used after the call. If the
/// output is not wanted, the array has its own memory.
PyObject* MakeOutArray(const TensorView& tensor);

/// Returns whether an array from MakeOutArray is unchanged: an operator must not give it other
/// memory or another type.
bool IsIntact(PyObject* array, const TensorView& tensor);

/// Returns a copy of an array, with its own memory. Returns any other object unchanged.
PyObject* CopyOf(PyObject* value);

/// Returns whether the array's memory was lent by MakeView or MakeOutArray.
bool IsLent(PyObject* array);

/// Returns whether `feed` is a dictionary of OrtValues and of arrays in this machine's byte order,
/// which onnxruntime takes unchanged. In C++ because it is called for each run of a session.
bool IsPlain(nanobind::handle feed);

/// Gives an array from MakeView or MakeOutArray a copy of its data. Views that the operator has
/// made of it still point into the runtime's memory: there is no way to find them.
void Detach(PyObject* view);

/// The value that an operator returned for one output.
class ReturnedArray {
 public:
  /// Takes an array or a NumPy scalar; false for anything else. Never follows __array_interface__
  /// and the like: an object may report a wrong address for its memory.
  bool Take(PyObject* value);
  /// Takes a Python number, a str, or lists of them, if they fit the type (see
  /// opgraft/_base/_values.py). Returns false for anything else; for a value of such a kind that
  /// does not fit, `problem` says why.
  bool TakePlain(PyObject* value, std::int64_t element_type, std::string* problem);

  bool HasType(std::int64_t element_type) const;
  std::span<const std::int64_t> shape() const;
  /// Returns the memory of all elements if they are contiguous and in order; otherwise empty.
  std::span<const std::byte> block() const;
  /// Returns whether this is not a view of another array.
  bool OwnsItsMemory() const;
  /// Copies all elements to `memory` in ONNX's layout, whatever the array's strides. Returns false
  /// with a Python error set if that fails.
  bool CopyTo(std::int64_t element_type, void* memory) const;
  bool HasShapeOf(PyObject* array) const;
  /// Copies all elements to another array of this type and shape, which this may be a view of.
  bool CopyTo(PyObject* array) const;
  /// Reads the elements of an array that HasType string, as UTF-8; valid as long as `owners`.
  /// Returns false if an element is not a str or has no UTF-8; `problem` says which.
  bool ReadStrings(std::vector<nanobind::object>* owners, std::vector<std::string_view>* strings,
                   std::string* problem) const;

 private:
  nanobind::object array_;
};

/// Returns, for messages, "a float64 array of shape (2, 3)", "None" or "a list of length 2".
std::string Describe(PyObject* value);

/// Returns, for messages, what to return instead of `value`, which cannot become an array of
/// `dtype`.
std::string HowToReturn(PyObject* value, const std::string& dtype);

}  // namespace opgraft::pyop
