// Shapes that need not be known, as the runtime's shape inference hands them over.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/schema.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// The type and shape of an input. A shape without dimensions may be a scalar's, or not known at
/// all: the runtime does not say, and `shape` stays open.
Status ReadShape(const OrtApi* api, OrtShapeInferContext* context, std::size_t index, int* type,
                 SymbolicShape* shape);

/// Tells the runtime the type and shape of an output; one without dimensions must not be told. A
/// dimension that is open gets a name of its own, which begins with `who`: a rank must be complete.
Status WriteShape(const OrtApi* api, OrtShapeInferContext* context, const std::string& who,
                  std::size_t index, int type, const std::vector<Dimension>& shape);

}  // namespace opgraft::ort
