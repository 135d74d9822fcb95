// The only file that includes NumPy.
#include "pyop/arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>

#include "core/text.h"
#include "pyop/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

static_assert(sizeof(npy_intp) == sizeof(std::int64_t), "NumPy's shapes are read in place");

/// By ONNX's number; -1 where NumPy has no such type.
constexpr int kTypeNumbers[] = {-1,        NPY_FLOAT32, NPY_UINT8,  NPY_INT8,  NPY_UINT16,
                                NPY_INT16, NPY_INT32,   NPY_INT64,  -1,        NPY_BOOL,
                                NPY_HALF,  NPY_FLOAT64, NPY_UINT32, NPY_UINT64};

int TypeNumber(std::int64_t element_type) {
  const bool is_known =
      element_type >= 0 && element_type < static_cast<std::int64_t>(std::size(kTypeNumbers));
  return is_known ? kTypeNumbers[element_type] : -1;
}

PyArrayObject* AsArray(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

/// In place, and so valid while the array stays as it is.
std::span<const std::int64_t> ShapeOf(PyObject* array) {
  return {reinterpret_cast<const std::int64_t*>(PyArray_DIMS(AsArray(array))),
          static_cast<std::size_t>(PyArray_NDIM(AsArray(array)))};
}

/// An array over `memory`; nullptr with a Python error set.
PyObject* Wrap(std::int64_t element_type, std::span<const std::int64_t> shape, void* memory,
               int flags) {
  PyArray_Descr* descriptor = PyArray_DescrFromType(TypeNumber(element_type));
  if (descriptor == nullptr) return nullptr;
  return PyArray_NewFromDescr(&PyArray_Type, descriptor, static_cast<int>(shape.size()),
                              reinterpret_cast<const npy_intp*>(shape.data()), nullptr, memory,
                              flags, nullptr);
}

/// The base of every view. Since it offers no memory, NumPy refuses to make a view writeable.
PyObject* ViewOwner() {
  static PyObject* const owner =
      PyUnicode_InternFromString("memory of ONNX Runtime, lent for one call");
  return owner;
}

PyObject* ImportNumPyApi() {
  import_array();
  return Py_None;
}

}  // namespace

void ImportNumPy() {
  if (ImportNumPyApi() == nullptr) throw nb::python_error();
}

bool HasArrays(std::int64_t element_type) { return TypeNumber(element_type) >= 0; }

PyObject* MakeView(const TensorView& tensor) {
  PyObject* view = Wrap(tensor.element_type, tensor.shape, tensor.data,
                        NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  if (view == nullptr) return nullptr;
  PyArray_UpdateFlags(AsArray(view), NPY_ARRAY_ALIGNED);  // a caller's buffer may lie anywhere
  Py_INCREF(ViewOwner());
  if (PyArray_SetBaseObject(AsArray(view), ViewOwner()) == 0) return view;
  Py_DECREF(view);
  return nullptr;
}

bool HasViews(std::int64_t element_type) { return TypeNumber(element_type) >= 0; }

PyObject* MakeOutArray(const TensorView& tensor) {
  PyObject* array =
      Wrap(tensor.element_type, tensor.shape, tensor.data, NPY_ARRAY_CARRAY | NPY_ARRAY_WRITEABLE);
  if (array == nullptr || tensor.data == nullptr) return array;
  PyArray_UpdateFlags(AsArray(array), NPY_ARRAY_ALIGNED);
  Py_INCREF(ViewOwner());
  if (PyArray_SetBaseObject(AsArray(array), ViewOwner()) == 0) return array;
  Py_DECREF(array);
  return nullptr;
}

bool IsLent(PyObject* array) {
  return PyArray_Check(array) && PyArray_BASE(AsArray(array)) == ViewOwner();
}

PyObject* MakeCopy(const TensorView& tensor) {
  PyObject* copy = Wrap(tensor.element_type, tensor.shape, nullptr, 0);
  if (copy == nullptr) return nullptr;
  std::memcpy(PyArray_DATA(AsArray(copy)), tensor.data, PyArray_NBYTES(AsArray(copy)));
  return copy;
}

void Detach(PyObject* view) {
  auto* fields = reinterpret_cast<PyArrayObject_fields*>(view);
  const std::size_t size = PyArray_NBYTES(AsArray(view));
  PyObject* memory = PyBytes_FromStringAndSize(fields->data, static_cast<Py_ssize_t>(size));
  if (memory == nullptr) {
    // Without memory for a copy the array must not reach the runtime's either: it becomes empty.
    PyErr_Clear();
    for (int i = 0; i < fields->nd; ++i) fields->dimensions[i] = 0;
    return;
  }
  fields->data = PyBytes_AS_STRING(memory);
  PyArray_CLEARFLAGS(AsArray(view), NPY_ARRAY_WRITEABLE);
  Py_XSETREF(fields->base, memory);
}

bool ReturnedArray::Take(PyObject* value) {
  if (PyArray_Check(value)) {
    // A masked array's data says nothing of its mask, so that it is no plain array.
    if (!PyArray_CheckExact(value) && PyObject_HasAttrString(value, "mask")) return false;
    array_ = nb::borrow(value);
    return true;
  }
  if (!PyArray_IsScalar(value, Generic)) return false;
  array_ = nb::steal(PyArray_FromScalar(value, nullptr));
  if (!array_.is_valid()) PyErr_Clear();
  return array_.is_valid();
}

bool ReturnedArray::HasType(std::int64_t element_type) const {
  // Types that are not NumPy's own may have no number that could be compared.
  const int type = PyArray_TYPE(AsArray(array_.ptr()));
  return type >= 0 && !PyTypeNum_ISUSERDEF(type) &&
         PyArray_EquivTypenums(type, TypeNumber(element_type));
}

std::span<const std::int64_t> ReturnedArray::shape() const { return ShapeOf(array_.ptr()); }

std::span<const std::byte> ReturnedArray::block() const {
  PyArrayObject* array = AsArray(array_.ptr());
  if (!PyArray_ISCARRAY_RO(array)) return {};
  return {static_cast<const std::byte*>(PyArray_DATA(array)),
          static_cast<std::size_t>(PyArray_NBYTES(array))};
}

bool ReturnedArray::OwnsItsMemory() const {
  return PyArray_CHKFLAGS(AsArray(array_.ptr()), NPY_ARRAY_OWNDATA);
}

bool ReturnedArray::CopyTo(std::int64_t element_type, void* memory) const {
  const nb::object target =
      nb::steal(Wrap(element_type, shape(), memory, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE));
  return target.is_valid() && PyArray_CopyInto(AsArray(target.ptr()), AsArray(array_.ptr())) == 0;
}

bool ReturnedArray::HasShapeOf(PyObject* array) const {
  const std::span<const std::int64_t> own = shape();
  const std::span<const std::int64_t> other = ShapeOf(array);
  return std::equal(own.begin(), own.end(), other.begin(), other.end());
}

bool ReturnedArray::CopyTo(PyObject* array) const {
  return PyArray_CopyInto(AsArray(array), AsArray(array_.ptr())) == 0;
}

std::string Describe(PyObject* value) {
  if (value == Py_None) return "None";
  std::string text = Py_TYPE(value)->tp_name;
  if (PyArray_Check(value)) {
    auto* const dtype = reinterpret_cast<PyObject*>(PyArray_DESCR(AsArray(value)));
    text = ToUtf8(nb::steal(PyObject_Str(dtype))) +
           (PyArray_CheckExact(value) ? " array" : " " + text) + " of shape (";
    const std::span<const std::int64_t> shape = ShapeOf(value);
    text += DimensionsText(shape) + (shape.size() == 1 ? ",)" : ")");
  } else if (PyList_Check(value) || PyTuple_Check(value)) {
    text += " of length " + std::to_string(Py_SIZE(value));
  }
  constexpr std::string_view kVowels = "aeioAEIO";
  return (kVowels.find(text.front()) != kVowels.npos ? "an " : "a ") + text;
}

std::string HowToReturn(PyObject* value, std::string_view type_name) {
  const std::string dtype = "numpy." + std::string(type_name);
  if (value == Py_None) return "give every path through the method a return statement";
  if (PyArray_Check(value)) return "return value.filled(...), since a mask cannot be returned";
  if (PyList_Check(value) && Py_SIZE(value) == 1 && PyArray_Check(PyList_GET_ITEM(value, 0))) {
    return "return the array itself, not in a list";
  }
  if (PyList_Check(value) || PyNumber_Check(value) != 0) {
    return "return numpy.asarray(value, dtype=" + dtype + ")";
  }
  return "return a NumPy array of " + dtype;
}

}  // namespace opgraft::pyop
