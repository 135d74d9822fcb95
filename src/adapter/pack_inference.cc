// Implements the functions with the runtime's shape inference context.
#include "adapter/pack_inference.h"

#include <utility>

#include "adapter/calls.h"
#include "adapter/shapes.h"
#include "base/pack_error.h"

namespace opgraft::ort {

const OpgraftInferenceTable PackInference::kTable = {&Fail,      &InputCount, &OutputCount, &Input,
                                                     &Attribute, &Constant,   &SetOutput};

PackInference::PackInference(const Runtime& runtime, OrtShapeInferContext* context, std::string who)
    : OpgraftInference{&kTable},
      runtime_(runtime),
      context_(context),
      attributes_(runtime, context),
      who_(std::move(who)) {}

Status PackInference::Read() {
  const OrtApi* const api = runtime_.api;
  std::size_t count = 0;
  Status status = FromRuntime(api, ShapeInferContext_GetInputCount(api, context_, &count));
  for (std::size_t i = 0; i < count && status.ok(); ++i) {
    Known& known = inputs_.emplace_back();
    // An absent input has no type that could be read.
    if (!ReadShape(api, context_, i, &known.type, &known.shape).ok()) known = Known();
    if (!known.shape) continue;
    for (const Dimension& dimension : *known.shape) {
      known.dimensions.push_back({dimension.size, dimension.symbol.c_str()});
    }
  }
  return status;
}

void PackInference::Fail(OpgraftInference* self, const OpgraftError* error) {
  Self(self).errors_.Report(*error);
}

int PackInference::Input(OpgraftInference* self, std::size_t index, OpgraftShape* shape) {
  const std::vector<Known>& inputs = Self(self).inputs_;
  *shape = {};
  if (index >= inputs.size()) return 0;
  const Known& known = inputs[index];
  *shape = {known.type, known.shape ? 1 : 0, known.dimensions.size(), known.dimensions.data()};
  return 0;
}

int PackInference::Attribute(OpgraftInference* self, const char* name, std::int32_t kind,
                             OpgraftAttribute* attribute) {
  PackInference& inference = Self(self);
  *attribute = {};
  if (!inference.attributes_.Has(name)) return 0;
  Status status = inference.values_.emplace_back(inference.runtime_)
                      .Read(inference.attributes_, name, kind, attribute);
  if (status.ok() && attribute->kind == 0) {
    status = Status::Unavailable("attribute '" + std::string(name) + "' cannot be read here");
  }
  return inference.errors_.Keep(std::move(status));
}

int PackInference::SetOutput(OpgraftInference* self, std::size_t index, const OpgraftShape* shape) {
  PackInference& inference = Self(self);
  // The runtime does not distinguish an unknown rank from a scalar, so that neither is set.
  if (shape->has_rank == 0 || shape->rank == 0 || shape->element_type == 0) return 0;
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < shape->rank; ++i) {
    const OpgraftDimension& one = shape->dimensions[i];
    dimensions.push_back({one.size, one.symbol != nullptr ? one.symbol : ""});
  }
  Status status = WriteShape(inference.runtime_.api, inference.context_, inference.who_, index,
                             shape->element_type, dimensions);
  return inference.errors_.Keep(std::move(status));
}

}  // namespace opgraft::ort
