// Makes arrays of a library such as torch over the runtime's memory on a GPU, and reads the
// library's own arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "bridge/bridge.h"
#include "opgraft/status.h"
#include "python/call/dlpack.h"

// Everything here needs the GIL.
namespace opgraft::pyop {

/// The memory that one call has lent to Python: counts the pieces that arrays, or views of them,
/// still hold. The library may release them in any thread.
struct Loan {
  std::atomic<int> held = 0;
};

/// The description of an array, valid while the array does not change.
struct ArrayLook {
  dlpack::Tensor tensor = {};
  nanobind::object owner;  ///< owns what `tensor` points to; invalid if the array itself does
};

/// The library that provides an operator's arrays, for one GPU: opgraft/_cuda/_gpu_arrays.py.
class GpuLibrary {
 public:
  /// Finds the library of a declared operator. Returns an UnavailableError if it cannot be used.
  /// May throw nb::python_error.
  static Status Find(const Spec& spec, const Gpu& gpu, GpuLibrary* library);

  /// Returns an array over the tensor's memory, which must not be used after the call: a new
  /// reference, or nullptr with a Python error set.
  PyObject* Lend(const TensorView& tensor, const std::shared_ptr<Loan>& loan) const;

  bool IsArray(PyObject* value) const;
  /// Describes an array. Returns false if it is not plain numbers in memory or does not support
  /// DLPack.
  bool Look(PyObject* array, ArrayLook* look) const;
  /// Returns whether the tensor is on this GPU.
  bool IsHere(const dlpack::Tensor& tensor) const;
  /// Returns whether the array's memory holds its values themselves (not, say, their negatives).
  bool IsPlain(PyObject* array) const;

  /// Returns a new reference, or nullptr with a Python error set.
  PyObject* Copy(PyObject* array) const;
  /// Copies all elements, whatever the strides. Returns false with a Python error set if that
  /// fails.
  bool Assign(PyObject* to, PyObject* from) const;

  /// For messages: an array that was returned, one that was expected, and what to write.
  std::string Describe(PyObject* array) const;
  std::string Expected(std::int64_t element_type) const;
  std::string HowTo(const char* what, const std::string& argument = "") const;

  /// Drops the Python objects without releasing them, for when Python has ended.
  void Forget();

 private:
  friend class OnStream;

  /// The attributes of `library_` are read in advance, so that a call looks up no name.
  nanobind::object library_;
  nanobind::object array_;           // the class of arrays
  nanobind::object from_dlpack_;     // makes an array from a capsule
  nanobind::object current_stream_;  // returns the address of this thread's stream
  nanobind::object on_stream_;       // makes a context manager from an address
  nanobind::object is_plain_;
  nanobind::object copy_;
  nanobind::object assign_;
  const dlpack::Exchange* exchange_ = nullptr;  // nullptr if it offers none
  int gpu_ = 0;
};

/// While it exists, the given stream is the library's current stream in this thread.
class OnStream {
 public:
  /// May throw nb::python_error.
  OnStream(const GpuLibrary& library, void* stream);
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream();

 private:
  nanobind::object manager_;  // invalid if the stream was current already
};

}  // namespace opgraft::pyop
