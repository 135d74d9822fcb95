// What an operator returns, checked and stored in the runtime's memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opgraft/status.h"
#include "pyop/bridge.h"
#include "pyop/invocation.h"
#include "pyop/shape_rule.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// Whether a shape is one that `declared` leaves open or says.
bool Fits(std::span<const std::int64_t> shape, std::span<const std::int64_t> declared);

/// For one call, during which all that is given must live. Needs the GIL. What the arrays are, and
/// where they lie, is a derived class's to know.
class OutputStore {
 public:
  /// `inferred` is nullptr where there is no shape rule. `keep_frames`: as in Failure.
  OutputStore(const Spec& spec, Call& call, const InferredShapes* inferred, bool keep_frames)
      : spec_(spec), call_(call), inferred_(inferred), keep_frames_(keep_frames) {}
  OutputStore(const OutputStore&) = delete;
  OutputStore& operator=(const OutputStore&) = delete;
  virtual ~OutputStore() = default;

  /// Adds the arrays of the argument `out`, over the runtime's memory; there must be a rule.
  Status MakeOut(Arguments* arguments);

  /// Takes what the operator returned. `out` are the arrays of MakeOut, or none.
  Status Store(PyObject* returned, std::span<PyObject* const> out) const;

 protected:
  /// A writeable array over an output's memory, or over memory of its own where nobody wants the
  /// output. nullptr with a Python error set.
  virtual PyObject* MakeOutArray(const TensorView& tensor) = 0;
  /// Whether such an array is still what it was made as.
  virtual bool IsIntact(PyObject* array, const TensorView& tensor) const = 0;
  /// An array with the same elements and memory of its own; anything else than an array as it is.
  virtual PyObject* CopyOf(PyObject* value) const = 0;
  /// "a float64 array of shape (2, 3)", "None" or "a list of length 2", for messages.
  virtual std::string Describe(PyObject* value) const = 0;
  /// What came back for an output that was given as `out`, if it is another array.
  virtual Status StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const = 0;
  /// `is_ours` where nobody else can reach `value`, so that it stays as it is without the GIL.
  virtual Status StoreOne(std::size_t index, PyObject* value, bool is_ours) const = 0;

  /// Against the model and, where `value` has the shape, the shape rule; nullptr where the shape is
  /// the rule's.
  Status CheckShape(std::size_t index, std::span<const std::int64_t> shape, PyObject* value) const;
  /// The error of a value that is not what was expected.
  Status Unexpected(std::size_t index, PyObject* value, const std::string& expected,
                    const std::string& fix, const std::string& problem = "") const;
  /// Memory for an output; an error names it and `value`.
  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, PyObject* value,
                  void** memory) const;
  Status Named(const Status& status, std::size_t index, PyObject* value) const;

  const Spec& spec_;
  Call& call_;
  const InferredShapes* const inferred_;
  const bool keep_frames_;

 private:
  std::vector<TensorView> out_;  // what the arrays of MakeOut were made as
};

}  // namespace opgraft::pyop
