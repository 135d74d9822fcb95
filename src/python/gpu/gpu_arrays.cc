// Uses DLPack: a library's C functions if it offers them, otherwise capsules.
#include "python/gpu/gpu_arrays.h"

#include <nanobind/stl/string.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "base/element_type.h"
#include "python/call/arrays.h"
#include "python/call/dlpack_tensors.h"
#include "python/call/failure.h"
#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// A piece of the runtime's memory lent to Python, in both forms that a library may take.
struct LentTensor {
  dlpack::ManagedTensor managed;
  dlpack::UnversionedTensor unversioned;
  std::shared_ptr<Loan> loan;
};

void Release(LentTensor* lent) {
  lent->loan->held.fetch_sub(1, std::memory_order_acq_rel);
  lent->~LentTensor();
  std::free(lent);
}

/// Returns nullptr if memory runs out.
LentTensor* MakeLent(const TensorView& tensor, int gpu, const std::shared_ptr<Loan>& loan) {
  const std::size_t rank = tensor.shape.size();
  void* const memory = std::malloc(sizeof(LentTensor) + 2 * rank * sizeof(std::int64_t));
  if (memory == nullptr) return nullptr;
  auto* const lent = new (memory) LentTensor{};
  auto* const sizes = reinterpret_cast<std::int64_t*>(lent + 1);
  std::int64_t* const strides = sizes + rank;
  std::int64_t stride = 1;
  bool is_empty = false;
  for (std::size_t axis = rank; axis-- > 0;) {
    sizes[axis] = tensor.shape[axis];
    strides[axis] = stride;
    if (sizes[axis] > 1) stride *= sizes[axis];
    is_empty |= sizes[axis] == 0;
  }
  dlpack::DataType type = {};
  eager::FindDataType(tensor.element_type, &type);
  const dlpack::Tensor described = {is_empty ? nullptr : tensor.data,
                                    {dlpack::kCuda, gpu},
                                    static_cast<std::int32_t>(rank),
                                    type,
                                    sizes,
                                    strides,
                                    0};
  lent->managed = {
      {dlpack::kMajorVersion, 0},
      lent,
      [](dlpack::ManagedTensor* self) { Release(static_cast<LentTensor*>(self->context)); },
      0,
      described};
  lent->unversioned = {described, lent, [](dlpack::UnversionedTensor* self) {
                         Release(static_cast<LentTensor*>(self->context));
                       }};
  lent->loan = loan;
  loan->held.fetch_add(1, std::memory_order_relaxed);
  return lent;
}

/// Releases the tensor in a capsule that was not consumed.
void DropCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dlpack::kUnversionedCapsule) == 0) return;
  auto* const tensor = static_cast<dlpack::UnversionedTensor*>(
      PyCapsule_GetPointer(capsule, dlpack::kUnversionedCapsule));
  tensor->deleter(tensor);
}

PyObject* AsName(const char* name) { return PyUnicode_InternFromString(name); }

/// Reads the tensor from the capsule that an array's `__dlpack__` returns, without synchronising.
bool LookByCapsule(PyObject* array, ArrayLook* look) {
  static PyObject* const kMethod = AsName("__dlpack__");
  static PyObject* const kKeywords = PyTuple_Pack(1, AsName("stream"));
  static PyObject* const kNoStream = PyLong_FromLong(-1);
  PyObject* const arguments[] = {array, kNoStream};
  look->owner = nb::steal(PyObject_VectorcallMethod(kMethod, arguments, 1, kKeywords));
  PyObject* const capsule = look->owner.ptr();
  if (capsule == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (PyCapsule_IsValid(capsule, dlpack::kUnversionedCapsule) != 0) {
    look->tensor = static_cast<dlpack::UnversionedTensor*>(
                       PyCapsule_GetPointer(capsule, dlpack::kUnversionedCapsule))
                       ->tensor;
    return true;
  }
  return false;
}

}  // namespace

Status GpuLibrary::Find(const Spec& spec, const Gpu& gpu, GpuLibrary* library) {
  nb::object found = nb::module_::import_("opgraft._cuda._gpu_arrays")
                         .attr("find")(spec.operator_name.c_str(), gpu.index());
  if (nb::isinstance<nb::str>(found)) {
    return Status::Unavailable(spec.Who() + ": " + ToUtf8(found));
  }
  for (const auto* const types : {&spec.input_types, &spec.output_types}) {
    for (const std::int64_t type : *types) {
      dlpack::DataType unused = {};
      if (type == 0 || eager::FindDataType(type, &unused)) continue;
      return Status::Model(spec.Who() + ": it has tensors of " + ElementTypeName(type) +
                           ", which arrays on a GPU do not support. Fix: cast them, or declare "
                           "the operator without device=\"cuda\"");
    }
  }
  library->gpu_ = gpu.index();
  library->array_ = found.attr("array");
  library->from_dlpack_ = found.attr("from_dlpack");
  library->current_stream_ = found.attr("current_stream");
  library->on_stream_ = found.attr("on_stream");
  library->is_plain_ = found.attr("is_plain");
  library->copy_ = found.attr("copy");
  library->assign_ = found.attr("assign");
  const nb::object exchange = found.attr("exchange");
  const Status status = exchange.is_none() ? Status::Error("it has none")
                                           : eager::FindExchange(exchange, &library->exchange_);
  if (!status.ok()) library->exchange_ = nullptr;
  library->library_ = std::move(found);
  return Status();
}

PyObject* GpuLibrary::Lend(const TensorView& tensor, const std::shared_ptr<Loan>& loan) const {
  LentTensor* const lent = MakeLent(tensor, gpu_, loan);
  if (lent == nullptr) return PyErr_NoMemory();
  if (exchange_ != nullptr) {
    void* object = nullptr;
    const bool is_made = exchange_->managed_to_object(&lent->managed, &object) == 0;
    return is_made ? static_cast<PyObject*>(object) : nullptr;
  }
  const nb::object capsule =
      nb::steal(PyCapsule_New(&lent->unversioned, dlpack::kUnversionedCapsule, DropCapsule));
  if (!capsule.is_valid()) {
    Release(lent);
    return nullptr;
  }
  return CallWith(from_dlpack_.ptr(), capsule.ptr());
}

bool GpuLibrary::IsArray(PyObject* value) const {
  const int is_array = PyObject_IsInstance(value, array_.ptr());
  if (is_array < 0) PyErr_Clear();
  return is_array > 0;
}

bool GpuLibrary::Look(PyObject* array, ArrayLook* look) const {
  if (exchange_ == nullptr) return LookByCapsule(array, look);
  if (exchange_->view_from_object(array, &look->tensor) == 0) return true;
  PyErr_Clear();
  return false;
}

bool GpuLibrary::IsHere(const dlpack::Tensor& tensor) const {
  const bool is_gpu =
      tensor.device.type == dlpack::kCuda || tensor.device.type == dlpack::kCudaManaged;
  return is_gpu && tensor.device.index == gpu_;
}

bool GpuLibrary::IsPlain(PyObject* array) const {
  const nb::object is_plain = nb::steal(CallWith(is_plain_.ptr(), array));
  if (!is_plain.is_valid()) PyErr_Clear();
  return is_plain.is_valid() && is_plain.ptr() == Py_True;
}

PyObject* GpuLibrary::Copy(PyObject* array) const { return CallWith(copy_.ptr(), array); }

bool GpuLibrary::Assign(PyObject* to, PyObject* from) const {
  PyObject* const arguments[] = {to, from};
  return nb::steal(PyObject_Vectorcall(assign_.ptr(), arguments, 2, nullptr)).is_valid();
}

std::string GpuLibrary::Describe(PyObject* array) const {
  try {
    return nb::cast<std::string>(library_.attr("describe")(nb::handle(array)));
  } catch (nb::python_error&) {  // the array may be of any subclass, whose methods may raise
    return pyop::Describe(array);
  }
}

std::string GpuLibrary::Expected(std::int64_t element_type) const {
  return "a " + HowTo("name") + " of " + ElementTypeName(element_type) + " on GPU " +
         std::to_string(gpu_);
}

std::string GpuLibrary::HowTo(const char* what, const std::string& argument) const {
  try {
    const nb::object text = library_.attr(what);
    return ToUtf8(argument.empty() ? text : nb::object(text(argument)));
  } catch (nb::python_error&) {
    return "?";
  }
}

void GpuLibrary::Forget() {
  for (nb::object* one : {&library_, &array_, &from_dlpack_, &current_stream_, &on_stream_,
                          &is_plain_, &copy_, &assign_}) {
    one->release();
  }
}

OnStream::OnStream(const GpuLibrary& library, void* stream) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(stream);
  std::uintptr_t current = 0;
  const dlpack::Exchange* const exchange = library.exchange_;
  if (exchange != nullptr && exchange->current_stream != nullptr) {
    void* found = nullptr;
    if (exchange->current_stream(dlpack::kCuda, library.gpu_, &found) != 0) {
      throw nb::python_error();
    }
    current = reinterpret_cast<std::uintptr_t>(found);
  } else {
    current = nb::cast<std::uintptr_t>(library.current_stream_());
  }
  if (current == wanted) return;
  nb::object manager = library.on_stream_(wanted);
  manager.attr("__enter__")();
  manager_ = std::move(manager);
}

OnStream::~OnStream() {
  if (!manager_.is_valid()) return;
  const nb::error_scope error;  // keeps an exception that may already be set
  try {
    manager_.attr("__exit__")(nb::none(), nb::none(), nb::none());
  } catch (nb::python_error& failed) {
    failed.discard_as_unraisable("leaving a stream");
  }
}

}  // namespace opgraft::pyop
