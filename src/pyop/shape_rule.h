// The shape rule of a declared operator, applied in each run.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "opgraft/status.h"
#include "pyop/bridge.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// What a rule has said.
struct InferredShapes {
  std::vector<std::optional<std::vector<std::int64_t>>> inputs;  ///< nullopt: absent
  std::vector<DeclaredShape> outputs;
};

/// Needs the GIL, which guards what the rule has said last: that serves until other shapes come.
class ShapeRule {
 public:
  /// `rule` is PythonCallable::rule; `spec` must outlive this.
  ShapeRule(const Spec& spec, nanobind::object rule) : spec_(spec), rule_(std::move(rule)) {}

  Status Apply(std::span<const TensorView> inputs, std::shared_ptr<const InferredShapes>* inferred);

  /// Instead of letting go of the Python object, where Python is gone.
  void Forget() { rule_.release(); }

 private:
  const Spec& spec_;
  nanobind::object rule_;
  std::shared_ptr<const InferredShapes> last_;
};

}  // namespace opgraft::pyop
