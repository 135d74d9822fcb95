// Passes the inputs' shapes to the Python rule, and reads the shapes that it returns.
#include "python/call/shape_rule.h"

#include <algorithm>

#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

bool IsSame(const TensorView& input, const std::optional<std::vector<std::int64_t>>& known) {
  if ((input.data == nullptr) != !known) return false;
  return !known || std::equal(input.shape.begin(), input.shape.end(), known->begin(), known->end());
}

}  // namespace

Status ShapeRule::Apply(std::span<const TensorView> inputs,
                        std::shared_ptr<const InferredShapes>* inferred) {
  if (last_ != nullptr && std::equal(inputs.begin(), inputs.end(), last_->inputs.begin(),
                                     last_->inputs.end(), IsSame)) {
    *inferred = last_;
    return Status();
  }
  auto said = std::make_shared<InferredShapes>();
  nb::list shapes;
  for (const TensorView& input : inputs) {
    auto& shape = said->inputs.emplace_back();
    if (input.data == nullptr) {
      shapes.append(nb::none());
      continue;
    }
    shape.emplace(input.shape.begin(), input.shape.end());
    nb::list dimensions;
    for (const std::int64_t size : input.shape) dimensions.append(size);
    shapes.append(nb::tuple(dimensions));
  }
  try {
    const nb::object given = rule_(shapes, spec_.output_types.size());
    for (const nb::handle shape : given) {
      DeclaredShape& output = said->outputs.emplace_back();
      if (shape.is_none()) continue;
      output.emplace();
      for (const nb::handle size : shape) {
        output->push_back(size.is_none() ? kUnknown : nb::cast<std::int64_t>(size));
      }
    }
  } catch (nb::python_error& error) {
    error.restore();
    return Failure(/*keep_frames=*/true).ToStatus(spec_.Who() + ": its shape rule", true);
  }
  *inferred = last_ = std::move(said);
  return Status();
}

}  // namespace opgraft::pyop
