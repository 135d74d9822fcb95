// The shape rule of a declared operator, applied in each run.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bridge/bridge.h"
#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::pyop {

/// The shapes that a rule was given, and those that it returned.
struct InferredShapes {
  std::vector<std::optional<std::vector<std::int64_t>>> inputs;  ///< nullopt: absent
  std::vector<DeclaredShape> outputs;
};

/// Needs the GIL, which guards the last result: it is reused until the inputs have other shapes.
class ShapeRule {
 public:
  /// `rule` is PythonCallable::rule; `spec` must outlive this.
  ShapeRule(const Spec& spec, nanobind::object rule) : spec_(spec), rule_(std::move(rule)) {}

  Status Apply(std::span<const TensorView> inputs, std::shared_ptr<const InferredShapes>* inferred);

  /// Drops the Python object without releasing it, for when Python has ended.
  void Forget() { rule_.release(); }

 private:
  const Spec& spec_;
  nanobind::object rule_;
  std::shared_ptr<const InferredShapes> last_;
};

}  // namespace opgraft::pyop
