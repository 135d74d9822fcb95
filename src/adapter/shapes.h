// Reads and writes shapes in the runtime's shape inference, where sizes need not be known.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/symbolic_shape.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// Reads the type and shape of an input. The runtime does not distinguish a scalar from an unknown
/// shape: for both, `shape` stays open.
Status ReadShape(const OrtApi* api, OrtShapeInferContext* context, std::size_t index, int* type,
                 SymbolicShape* shape);

/// Sets the type and shape of an output; must not be called for a shape without dimensions. An open
/// dimension gets a unique name that begins with `who`, so that the rank is complete.
Status WriteShape(const OrtApi* api, OrtShapeInferContext* context, const std::string& who,
                  std::size_t index, int type, const std::vector<Dimension>& shape);

}  // namespace opgraft::ort
