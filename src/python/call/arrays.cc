// The only file that includes NumPy's headers.
#include "python/call/arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/element_type.h"
#include "base/text.h"
#include "python/call/failure.h"
#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

static_assert(sizeof(npy_intp) == sizeof(std::int64_t), "NumPy's shapes are read in place");

/// Indexed by ONNX's number of the element type and never freed. nullptr for a type of ml_dtypes
/// that has not been requested yet. Guarded by the GIL.
std::array<PyArray_Descr*, 32> descriptors = {};

PyArray_Descr* FindDescriptor(std::int64_t element_type) {
  const bool is_known =
      element_type >= 0 && element_type < static_cast<std::int64_t>(descriptors.size());
  return is_known ? descriptors[static_cast<std::size_t>(element_type)] : nullptr;
}

bool IsNumPysOwn(std::int64_t element_type) {
  const ElementType* const type = FindElementType(element_type);
  return type != nullptr && type->numpy_kind != 0;
}

/// NumPy 2's StringDType. NumPy's headers define it only for programs that require NumPy 2.
constexpr int kStringType = 2056;

PyArrayObject* AsArray(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

/// Returns an array over `memory`, or nullptr with a Python error set.
PyObject* Wrap(std::int64_t element_type, std::span<const std::int64_t> shape, void* memory,
               int flags) {
  PyArray_Descr* descriptor = FindDescriptor(element_type);
  if (descriptor == nullptr) {
    PyErr_SetString(PyExc_TypeError, "there are no arrays of this type");
    return nullptr;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(descriptor));
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
  for (const ElementType& type : kElementTypes) {
    if (type.numpy_kind == 0) continue;
    const std::string size = type.size > 0 ? std::to_string(type.size) : "";
    const nb::str kind((type.numpy_kind + size).c_str());
    PyArray_Descr*& descriptor = descriptors[static_cast<std::size_t>(type.number)];
    if (PyArray_DescrConverter(kind.ptr(), &descriptor) != NPY_SUCCEED) return nullptr;
  }
  return Py_None;
}

}  // namespace

void ImportNumPy() {
  if (ImportNumPyApi() == nullptr) throw nb::python_error();
}

bool HasArrays(std::int64_t element_type) { return FindDescriptor(element_type) != nullptr; }

Status FindArrays(std::int64_t element_type) {
  if (HasArrays(element_type)) return Status();
  const ElementType* const type = FindElementType(element_type);
  if (type == nullptr || element_type == 0) {
    return Status::Model("there are no arrays of " + ElementTypeName(element_type));
  }
  const std::string name(type->name);
  const nb::object module = nb::steal(PyImport_ImportModule("ml_dtypes"));
  const nb::object scalar = module.is_valid()
                                ? nb::steal(PyObject_GetAttrString(module.ptr(), name.c_str()))
                                : nb::object();
  PyArray_Descr* descriptor = nullptr;
  if (scalar.is_valid() && PyArray_DescrConverter(scalar.ptr(), &descriptor) == NPY_SUCCEED &&
      PyTypeNum_ISUSERDEF(descriptor->type_num) &&
      PyDataType_ELSIZE(descriptor) == static_cast<npy_intp>(type->size)) {
    descriptors[static_cast<std::size_t>(element_type)] = descriptor;
    return Status();
  }
  Py_XDECREF(reinterpret_cast<PyObject*>(descriptor));
  const bool is_missing =
      PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError) != 0;
  std::string reason =
      is_missing ? "is not installed" : "has no such type: it is too old or broken";
  PyErr_Clear();
  return Status::Unavailable("arrays of " + name + " need the Python package ml_dtypes, which " +
                             reason + ". Fix: pip install --upgrade ml_dtypes");
}

std::string DtypeName(std::int64_t element_type) {
  if (element_type == kString) return "object";
  return (IsNumPysOwn(element_type) ? "numpy." : "ml_dtypes.") + ElementTypeName(element_type);
}

PyObject* MakeView(const TensorView& tensor) {
  if (FindElementType(tensor.element_type)->IsPacked()) return MakeCopy(tensor);
  PyObject* view = Wrap(tensor.element_type, tensor.shape, tensor.data,
                        NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  if (view == nullptr) return nullptr;
  PyArray_UpdateFlags(AsArray(view), NPY_ARRAY_ALIGNED);  // a caller's buffer may be unaligned
  Py_INCREF(ViewOwner());
  if (PyArray_SetBaseObject(AsArray(view), ViewOwner()) == 0) return view;
  Py_DECREF(view);
  return nullptr;
}

PyObject* MakeSharedView(const TensorView& tensor, const std::int64_t* strides, PyObject* owner) {
  PyArray_Descr* descriptor = FindDescriptor(tensor.element_type);
  std::array<npy_intp, NPY_MAXDIMS> bytes;
  if (descriptor == nullptr || tensor.shape.size() > bytes.size()) {
    PyErr_SetString(PyExc_TypeError, "there are no arrays of this type or rank");
    return nullptr;
  }
  const npy_intp size = PyDataType_ELSIZE(descriptor);
  for (std::size_t i = 0; strides != nullptr && i < tensor.shape.size(); ++i) {
    bytes[i] = static_cast<npy_intp>(strides[i]) * size;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(descriptor));
  PyObject* view = PyArray_NewFromDescr(
      &PyArray_Type, descriptor, static_cast<int>(tensor.shape.size()),
      reinterpret_cast<const npy_intp*>(tensor.shape.data()),
      strides != nullptr ? bytes.data() : nullptr, tensor.data, NPY_ARRAY_ALIGNED, nullptr);
  if (view == nullptr || tensor.data == nullptr) return view;  // an empty array has its own memory
  PyArray_UpdateFlags(AsArray(view), NPY_ARRAY_UPDATE_ALL & ~NPY_ARRAY_WRITEABLE);
  PyArray_CLEARFLAGS(AsArray(view), NPY_ARRAY_WRITEABLE);
  if (PyArray_SetBaseObject(AsArray(view), Py_NewRef(owner)) == 0) return view;
  Py_DECREF(view);
  return nullptr;
}

PyObject* MakeEmpty(std::int64_t element_type, std::span<const std::int64_t> shape) {
  return Wrap(element_type, shape, nullptr, 0);
}

void* FindUnshared(PyObject* value, std::int64_t element_type, bool is_ours) {
  if (!is_ours || !PyArray_CheckExact(value)) return nullptr;
  PyArrayObject* const array = AsArray(value);
  const PyArray_Descr* const expected = FindDescriptor(element_type);
  const int type = PyArray_TYPE(array);
  const bool has_type = expected != nullptr && (type == expected->type_num ||
                                                (type >= 0 && !PyTypeNum_ISUSERDEF(type) &&
                                                 PyArray_EquivTypenums(type, expected->type_num)));
  if (!has_type || !PyArray_ISCARRAY(array)) return nullptr;
  if (PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA)) return PyArray_DATA(array);
  PyObject* const base = PyArray_BASE(array);  // the base of a view is the owner itself
  const bool owner_is_unshared = base != nullptr && Py_REFCNT(base) == 1 &&
                                 PyArray_CheckExact(base) &&
                                 PyArray_CHKFLAGS(AsArray(base), NPY_ARRAY_OWNDATA);
  return owner_is_unshared ? PyArray_DATA(array) : nullptr;
}

std::span<const std::int64_t> ShapeOf(PyObject* array) {
  return {reinterpret_cast<const std::int64_t*>(PyArray_DIMS(AsArray(array))),
          static_cast<std::size_t>(PyArray_NDIM(AsArray(array)))};
}

void* DataOf(PyObject* array) { return PyArray_DATA(AsArray(array)); }

bool HasViews(std::int64_t element_type) {
  return element_type != kString && !FindElementType(element_type)->IsPacked();
}

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

bool IsIntact(PyObject* array, const TensorView& tensor) {
  PyArrayObject* const fields = AsArray(array);
  const std::span<const std::int64_t> shape = ShapeOf(array);
  const bool has_memory = tensor.data == nullptr || PyArray_DATA(fields) == tensor.data;
  return has_memory && PyArray_ISCARRAY(fields) &&
         PyArray_EquivTypes(PyArray_DESCR(fields), FindDescriptor(tensor.element_type)) &&
         std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end());
}

PyObject* CopyOf(PyObject* value) {
  return PyArray_Check(value) ? PyArray_NewCopy(AsArray(value), NPY_KEEPORDER) : Py_NewRef(value);
}

bool IsLent(PyObject* array) {
  return PyArray_Check(array) && PyArray_BASE(AsArray(array)) == ViewOwner();
}

PyObject* MakeCopy(const TensorView& tensor) {
  PyObject* copy = Wrap(tensor.element_type, tensor.shape, nullptr, 0);
  if (copy == nullptr) return nullptr;
  const ElementType& type = *FindElementType(tensor.element_type);
  void* const data = PyArray_DATA(AsArray(copy));
  if (type.IsPacked()) {
    opgraft::Unpack(type, tensor.data, static_cast<std::size_t>(PyArray_SIZE(AsArray(copy))), data);
  } else {
    std::memcpy(data, tensor.data, static_cast<std::size_t>(PyArray_NBYTES(AsArray(copy))));
  }
  return copy;
}

PyObject* MakeStrings(std::span<const std::int64_t> shape,
                      std::span<const std::string_view> strings) {
  PyObject* array = Wrap(kString, shape, nullptr, 0);
  if (array == nullptr) return nullptr;
  auto** const elements = static_cast<PyObject**>(PyArray_DATA(AsArray(array)));
  for (std::size_t i = 0; i < strings.size(); ++i) {
    PyObject* text = PyUnicode_DecodeUTF8(
        strings[i].data(), static_cast<Py_ssize_t>(strings[i].size()), "surrogateescape");
    if (text == nullptr) {
      Py_DECREF(array);
      return nullptr;
    }
    Replace(&elements[i], text);
  }
  return array;
}

bool IsPlain(nb::handle feed) {
  if (PyDict_Check(feed.ptr()) == 0) return false;
  Py_ssize_t at = 0;
  PyObject* value = nullptr;
  while (PyDict_Next(feed.ptr(), &at, nullptr, &value) != 0) {
    const bool is_plain = PyArray_Check(value) ? PyArray_ISNOTSWAPPED(AsArray(value))
                                               : TypeNameOf(value) == "OrtValue";
    if (!is_plain) return false;
  }
  return true;
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
  fields->data = PyBytes_AsString(memory);
  PyArray_CLEARFLAGS(AsArray(view), NPY_ARRAY_WRITEABLE);
  Replace(&fields->base, memory);
}

bool ReturnedArray::Take(PyObject* value) {
  if (PyArray_Check(value)) {
    // A masked array is refused: its data does not include its mask.
    if (!PyArray_CheckExact(value) && PyObject_HasAttrString(value, "mask")) return false;
    array_ = nb::borrow(value);
    return true;
  }
  // A str is refused too: NumPy's dtype U drops zero characters at its end.
  if (!PyArray_IsScalar(value, Generic) || PyUnicode_Check(value) != 0) return false;
  array_ = nb::steal(PyArray_FromScalar(value, nullptr));
  if (!array_.is_valid()) PyErr_Clear();
  return array_.is_valid();
}

bool ReturnedArray::TakePlain(PyObject* value, std::int64_t element_type, std::string* problem) {
  if (PyFloat_Check(value) == 0 && PyLong_Check(value) == 0 && PyUnicode_Check(value) == 0 &&
      PyList_Check(value) == 0 && PyTuple_Check(value) == 0) {
    return false;
  }
  PyArray_Descr* const descriptor = FindDescriptor(element_type);
  if (descriptor == nullptr) return false;
  try {
    nb::object array = nb::module_::import_("opgraft._base._values")
                           .attr("as_array")(nb::handle(value),
                                             nb::handle(reinterpret_cast<PyObject*>(descriptor)));
    if (PyArray_Check(array.ptr()) == 0) return false;
    array_ = std::move(array);
    return true;
  } catch (nb::python_error& error) {
    *problem = ToUtf8(nb::steal(PyObject_Str(error.value().ptr())));
    PyErr_Clear();
    return false;
  }
}

bool ReturnedArray::HasType(std::int64_t element_type) const {
  // Types that are not NumPy's own may have no type number to compare.
  const int type = PyArray_TYPE(AsArray(array_.ptr()));
  if (element_type == kString) {
    return type == NPY_OBJECT || type == NPY_UNICODE || type == kStringType;
  }
  const PyArray_Descr* const expected = FindDescriptor(element_type);
  if (type < 0 || expected == nullptr) return false;
  return PyTypeNum_ISUSERDEF(type) ? type == expected->type_num
                                   : PyArray_EquivTypenums(type, expected->type_num);
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
  if (const ElementType& type = *FindElementType(element_type); type.IsPacked()) {
    const nb::object whole =
        nb::steal(PyArray_FromArray(AsArray(array_.ptr()), nullptr, NPY_ARRAY_CARRAY_RO));
    if (!whole.is_valid()) return false;
    PyArrayObject* const array = AsArray(whole.ptr());
    opgraft::Pack(type, PyArray_DATA(array), static_cast<std::size_t>(PyArray_SIZE(array)), memory);
    return true;
  }
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

bool ReturnedArray::ReadStrings(std::vector<nb::object>* owners,
                                std::vector<std::string_view>* strings,
                                std::string* problem) const {
  PyArray_Descr* const descriptor = FindDescriptor(kString);
  Py_INCREF(reinterpret_cast<PyObject*>(descriptor));
  const nb::object whole = nb::steal(PyArray_FromArray(AsArray(array_.ptr()), descriptor,
                                                       NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
  if (!whole.is_valid()) {
    *problem = "its elements cannot be read";
    PyErr_Clear();
    return false;
  }
  PyArrayObject* const array = AsArray(whole.ptr());
  auto* const* const elements = static_cast<PyObject**>(PyArray_DATA(array));
  const auto count = static_cast<std::size_t>(PyArray_SIZE(array));
  owners->reserve(count);
  strings->reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const element = elements[i] != nullptr ? elements[i] : Py_None;
    const std::string which = "element " + std::to_string(i) + " of " + std::to_string(count);
    if (PyUnicode_Check(element) == 0) {
      *problem = which + " is " + Describe(element) + ", not a str";
      return false;
    }
    Py_ssize_t size = 0;
    owners->push_back(nb::borrow(element));
    const char* text = PyUnicode_AsUTF8AndSize(element, &size);
    if (text == nullptr) {  // it has surrogates: those made by MakeStrings become bytes again
      PyErr_Clear();
      PyObject* bytes = PyUnicode_AsEncodedString(element, "utf-8", "surrogateescape");
      if (bytes == nullptr) {
        PyErr_Clear();
        *problem = which + " has a lone surrogate, which UTF-8 cannot encode";
        return false;
      }
      owners->push_back(nb::steal(bytes));
      text = PyBytes_AsString(bytes);
      size = PyBytes_Size(bytes);
    }
    strings->emplace_back(text, static_cast<std::size_t>(size));
  }
  return true;
}

std::string Describe(PyObject* value) {
  if (value == Py_None) return "None";
  std::string text = TypeNameOf(value);
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

std::string HowToReturn(PyObject* value, const std::string& dtype) {
  if (value == Py_None) return "give every path through the method a return statement";
  if (PyArray_Check(value)) return "return value.filled(...), since a mask cannot be returned";
  if (PyList_Check(value) && Py_SIZE(value) == 1 && PyArray_Check(NB_LIST_GET_ITEM(value, 0))) {
    return "return the array itself, not in a list";
  }
  if (PyList_Check(value) || PyNumber_Check(value) != 0) {
    return "return numpy.asarray(value, dtype=" + dtype + ")";
  }
  return "return a NumPy array of " + dtype;
}

}  // namespace opgraft::pyop
