// NumPy arrays over the runtime's memory, and out of arrays that an operator returned.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"
#include "pyop/bridge.h"

// All functions here need the GIL.
namespace opgraft::pyop {

/// Loads NumPy's C API, once, before anything else here; throws nb::python_error.
void ImportNumPy();

/// Whether arrays of this ONNX element type can be made right now, by the functions below.
bool HasArrays(std::int64_t element_type);

/// As HasArrays, once ml_dtypes is imported where NumPy has no such type itself. An
/// UnavailableError says what to install.
Status FindArrays(std::int64_t element_type);

/// "numpy.float32", "ml_dtypes.bfloat16" or "object", as an operator writes it.
std::string DtypeName(std::int64_t element_type);

/// A read-only array over the tensor's memory, not to be used once the call is over; a copy where
/// NumPy's elements lie otherwise than ONNX's. Not for strings.
/// nullptr with a Python error set where there is no memory or NumPy refuses the shape.
PyObject* MakeView(const TensorView& tensor);

/// A read-only array over memory that is `owner`'s, which it keeps alive. `strides` count elements;
/// nullptr: they lie in one block. As MakeView otherwise.
PyObject* MakeSharedView(const TensorView& tensor, const std::int64_t* strides, PyObject* owner);

/// An array whose elements are not set yet.
PyObject* MakeEmpty(std::int64_t element_type, std::span<const std::int64_t> shape);

/// The memory of an array of that type which nobody else can reach and which lies in one block, so
/// that it can change hands; nullptr for anything else. `is_ours` where the one reference to
/// `value` is the caller's.
void* FindUnshared(PyObject* value, std::int64_t element_type, bool is_ours);

/// The shape of an array, in place, and so valid while the array stays as it is.
std::span<const std::int64_t> ShapeOf(PyObject* array);

void* DataOf(PyObject* array);

/// An array with memory of its own, free to be kept and written to.
PyObject* MakeCopy(const TensorView& tensor);

/// An array of str. Bytes that are no UTF-8 become lone surrogates, as in os.fsdecode, so that
/// they are not lost on their way through an operator.
PyObject* MakeStrings(std::span<const std::int64_t> shape,
                      std::span<const std::string_view> strings);

/// Whether elements of this type lie in the runtime's memory as in NumPy's.
bool HasViews(std::int64_t element_type);

/// A writeable array over an output's memory, not to be used once the call is over; over memory of
/// its own where nobody wants the output.
PyObject* MakeOutArray(const TensorView& tensor);

/// Whether an array from MakeOutArray is still what it was made as: no operator may have given it
/// other memory or another type.
bool IsIntact(PyObject* array, const TensorView& tensor);

/// An array with the same elements and memory of its own; anything else than an array as it is.
PyObject* CopyOf(PyObject* value);

/// Whether the array's memory is lent by MakeView or MakeOutArray.
bool IsLent(PyObject* array);

/// Whether it is a dictionary of arrays in this machine's byte order and OrtValues, as onnxruntime
/// takes them. In C++ because each run of a session asks.
bool IsPlain(nanobind::handle feed);

/// Gives an array from MakeView or MakeOutArray a copy of its data. Views of it that the operator
/// has made meanwhile still point into the runtime's memory: nobody can find those.
void Detach(PyObject* view);

/// What an operator returned for one output.
class ReturnedArray {
 public:
  /// Takes an array or a NumPy scalar; false for anything else. Never follows __array_interface__
  /// and its like: what an object says about its memory may be a lie.
  bool Take(PyObject* value);
  /// Takes a Python number, a str, or lists of them, if they fit the type: opgraft/_values.py.
  /// False for anything else, where `problem` says what is wrong, if the value is of that kind at
  /// all.
  bool TakePlain(PyObject* value, std::int64_t element_type, std::string* problem);

  bool HasType(std::int64_t element_type) const;
  std::span<const std::int64_t> shape() const;
  /// All elements as they are to be copied, in one block; empty where they do not lie so.
  std::span<const std::byte> block() const;
  /// It is no view of another array.
  bool OwnsItsMemory() const;
  /// Copies all elements to `memory`, in order, as ONNX wants them and wherever they lie. False
  /// with a Python error set.
  bool CopyTo(std::int64_t element_type, void* memory) const;
  bool HasShapeOf(PyObject* array) const;
  /// Likewise to another array of that type and shape, of which this may be a part.
  bool CopyTo(PyObject* array) const;
  /// The elements of an array that HasType string, in UTF-8; valid as long as `owners`. Where one
  /// is no str, or cannot be written so, `problem` says which.
  bool ReadStrings(std::vector<nanobind::object>* owners, std::vector<std::string_view>* strings,
                   std::string* problem) const;

 private:
  nanobind::object array_;
};

/// "a float64 array of shape (2, 3)", "None" or "a list of length 2", for messages.
std::string Describe(PyObject* value);

/// What to return instead of `value`, which cannot be taken for an array of `dtype`.
std::string HowToReturn(PyObject* value, const std::string& dtype);

}  // namespace opgraft::pyop
