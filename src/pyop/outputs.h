// What an operator returns, checked and stored in the runtime's memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "opgraft/status.h"
#include "pyop/bridge.h"
#include "pyop/shape_rule.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// Whether a shape is one that `declared` leaves open or says.
bool Fits(std::span<const std::int64_t> shape, std::span<const std::int64_t> declared);

/// For one call, during which all that is given must live. Needs the GIL.
class OutputStore {
 public:
  /// `inferred` is nullptr where there is no shape rule. `keep_frames`: as in Failure.
  OutputStore(const Spec& spec, Call& call, const InferredShapes* inferred, bool keep_frames)
      : spec_(spec), call_(call), inferred_(inferred), keep_frames_(keep_frames) {}

  /// Adds the arrays of the argument `out`, over the runtime's memory; there must be a rule.
  Status MakeOut(std::vector<PyObject*>* arguments);

  /// In place of MakeOut, for arrays that the caller has made: what each was made as.
  void AdoptOut(std::vector<TensorView> out) { out_ = std::move(out); }

  /// Takes what the operator returned. `out` are the arrays of MakeOut, or none.
  Status Store(PyObject* returned, std::span<PyObject* const> out) const;

 private:
  /// What came back for an output that was given as `out`.
  Status StoreIntoOut(std::size_t index, PyObject* value, PyObject* out) const;
  /// `is_ours` where nobody else can reach `value`, so that it stays as it is without the GIL.
  Status StoreOne(std::size_t index, PyObject* value, bool is_ours) const;
  /// Against the model and, where `value` has the shape, the shape rule; nullptr where the shape is
  /// the rule's.
  Status CheckShape(std::size_t index, std::span<const std::int64_t> shape, PyObject* value) const;

  const Spec& spec_;
  Call& call_;
  const InferredShapes* const inferred_;
  const bool keep_frames_;
  std::vector<TensorView> out_;  // what the arrays of MakeOut were made as
};

}  // namespace opgraft::pyop
