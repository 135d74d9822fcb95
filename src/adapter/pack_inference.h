// A node whose shapes are inferred, behind the interface that opgraft/c_api.h gives to a pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "adapter/attribute_memory.h"
#include "adapter/attributes.h"
#include "adapter/runtime.h"
#include "base/pack_error.h"
#include "base/symbolic_shape.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

class PackInference : public OpgraftInference {
 public:
  PackInference(const Runtime& runtime, OrtShapeInferContext* context, std::string who);

  Status Read();

  const PackErrors& errors() const { return errors_; }

 private:
  struct Known {
    int type = 0;
    SymbolicShape shape;
    std::vector<OpgraftDimension> dimensions;
  };
  static const OpgraftInferenceTable kTable;
  static PackInference& Self(OpgraftInference* self) { return *static_cast<PackInference*>(self); }
  static void Fail(OpgraftInference* self, const OpgraftError* error);
  static std::size_t InputCount(OpgraftInference* self) { return Self(self).inputs_.size(); }
  static std::size_t OutputCount(OpgraftInference*) { return SIZE_MAX; }
  static int Input(OpgraftInference* self, std::size_t index, OpgraftShape* shape);
  static int Attribute(OpgraftInference* self, const char* name, std::int32_t kind,
                       OpgraftAttribute* attribute);
  static int Constant(OpgraftInference*, std::size_t, OpgraftTensor* tensor) {
    *tensor = {};
    return 0;
  }
  static int SetOutput(OpgraftInference* self, std::size_t index, const OpgraftShape* shape);

  const Runtime runtime_;
  OrtShapeInferContext* const context_;
  const InferenceAttributes attributes_;
  const std::string who_;
  std::vector<Known> inputs_;
  PackErrors errors_;
  std::deque<AttributeMemory> values_;
};

}  // namespace opgraft::ort
