// Arrays of a library such as torch over the runtime's memory on a GPU, and what it says of its
// own.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "eager/dlpack.h"
#include "opgraft/status.h"
#include "pyop/bridge.h"

// All here needs the GIL.
namespace opgraft::pyop {

/// What one call has lent to Python: how many pieces of memory are still held, by arrays or by
/// views of them. The library lets go of them in any thread.
struct Loan {
  std::atomic<int> held = 0;
};

/// What an array says of itself, valid while the array stays as it is.
struct ArrayLook {
  dlpack::Tensor tensor = {};
  nanobind::object owner;  ///< of what `tensor` points to; or the array has it
};

/// The library that an operator's arrays are of, for one GPU: opgraft/_gpu_arrays.py.
class GpuLibrary {
 public:
  /// That of a declared operator. An UnavailableError where it cannot be had. May throw
  /// nb::python_error.
  static Status Find(const Spec& spec, const Gpu& gpu, GpuLibrary* library);

  /// An array over the tensor's memory, not to be used once the call is over. A new reference, or
  /// nullptr with a Python error set.
  PyObject* Lend(const TensorView& tensor, const std::shared_ptr<Loan>& loan) const;

  bool IsArray(PyObject* value) const;
  /// False where an array does not lie in memory as plain numbers, or cannot say so.
  bool Look(PyObject* array, ArrayLook* look) const;
  /// Whether it lies on the GPU.
  bool IsHere(const dlpack::Tensor& tensor) const;
  /// Whether its memory holds the numbers that it shows.
  bool IsPlain(PyObject* array) const;

  /// A new reference, or nullptr with a Python error set.
  PyObject* Copy(PyObject* array) const;
  /// Copies all elements, wherever they lie; false with a Python error set.
  bool Assign(PyObject* to, PyObject* from) const;

  /// For messages: an array that came, one that was expected, and what to write.
  std::string Describe(PyObject* array) const;
  std::string Expected(std::int64_t element_type) const;
  std::string HowTo(const char* what, const std::string& argument = "") const;

  /// Instead of letting go of the Python objects, where Python is gone.
  void Forget();

 private:
  friend class OnStream;

  /// All of the Python object, so that no name is looked up in a call.
  nanobind::object library_;
  nanobind::object array_;           // the class
  nanobind::object from_dlpack_;     // from a capsule to an array
  nanobind::object current_stream_;  // the address of this thread's
  nanobind::object on_stream_;       // from an address to a context manager
  nanobind::object is_plain_;
  nanobind::object copy_;
  nanobind::object assign_;
  const dlpack::Exchange* exchange_ = nullptr;  // nullptr where it offers none
  int gpu_ = 0;
};

/// While it is there, the library's current stream in this thread is the one given.
class OnStream {
 public:
  /// May throw nb::python_error.
  OnStream(const GpuLibrary& library, void* stream);
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream();

 private:
  nanobind::object manager_;  // invalid where it was the current one before
};

}  // namespace opgraft::pyop
