// Checks what an operator returns, and stores it in the runtime's memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bridge/bridge.h"
#include "model/python_spec.h"
#include "opgraft/status.h"
#include "python/call/invocation.h"
#include "python/call/shape_rule.h"

namespace opgraft::pyop {

/// Returns whether a shape matches `declared`, in which a size may be unknown.
bool Fits(std::span<const std::int64_t> shape, std::span<const std::int64_t> declared);

/// Serves one call; all arguments must outlive it. Needs the GIL. A derived class knows what kind
/// of arrays there are and where their memory is.
class OutputStore {
 public:
  /// `inferred` is nullptr if there is no shape rule. `keep_frames` is as in Failure.
  OutputStore(const Spec& spec, Call& call, const InferredShapes* inferred, bool keep_frames)
      : spec_(spec), call_(call), inferred_(inferred), keep_frames_(keep_frames) {}
  OutputStore(const OutputStore&) = delete;
  OutputStore& operator=(const OutputStore&) = delete;
  virtual ~OutputStore() = default;

  /// Adds the arrays of the argument `out`, over the runtime's memory. There must be a shape rule.
  Status MakeOut(Arguments* arguments);

  /// Stores what the operator returned. `out` holds the arrays of MakeOut, if any.
  Status Store(PyObject* returned, std::span<PyObject* const> out) const;

 protected:
  /// Returns a writeable array over an output's memory, or one with its own memory if the output is
  /// not wanted. Returns nullptr with a Python error set if that fails.
  virtual PyObject* MakeOutArray(const TensorView& tensor) = 0;
  /// Returns whether an array from MakeOutArray still has its memory, type and shape.
  virtual bool IsIntact(PyObject* array, const TensorView& tensor) const = 0;
  /// Returns a copy of an array, with its own memory. Returns any other object unchanged.
  virtual PyObject* CopyOf(PyObject* value) const = 0;
  /// Returns, for messages, "a float64 array of shape (2, 3)", "None" or "a list of length 2".
  virtual std::string Describe(PyObject* value) const = 0;
  /// Stores an array that was returned for an output instead of its `out`.
  virtual Status StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const = 0;
  /// `is_ours` says that no other code can reach `value`, so that it cannot change while the GIL is
  /// released.
  virtual Status StoreOne(std::size_t index, PyObject* value, bool is_ours) const = 0;

  /// Checks a shape against the model and, if it is the shape of `value`, against the shape rule.
  /// `value` is nullptr if the shape comes from the rule itself.
  Status CheckShape(std::size_t index, std::span<const std::int64_t> shape, PyObject* value) const;
  /// Returns the error for a value that is not what was expected.
  Status Unexpected(std::size_t index, PyObject* value, const std::string& expected,
                    const std::string& fix, const std::string& problem = "") const;
  /// Allocates memory for an output; an error names the output and `value`.
  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, PyObject* value,
                  void** memory) const;
  Status Named(const Status& status, std::size_t index, PyObject* value) const;

  const Spec& spec_;
  Call& call_;
  const InferredShapes* const inferred_;
  const bool keep_frames_;

 private:
  std::vector<TensorView> out_;  // the tensors that MakeOut made arrays over
};

}  // namespace opgraft::pyop
