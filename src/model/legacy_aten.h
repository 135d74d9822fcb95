// Converts ATen nodes of torch's legacy exporter (ONNX_ATEN_FALLBACK) to our encoding.
#pragma once

#include <string>
#include <string_view>

#include "model/constants.h"
#include "model/declared_values.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Writes the node in the encoding of docs/aten.md. Its arguments are among its inputs, in the
/// order of the operator's schema, or are attributes; the overload must often be inferred from
/// them. Returns a ModelError if no overload fits.
Status ConvertLegacyAten(std::string_view node, const NodeHead& head,
                         const DeclaredValues& declared, Constants& constants,
                         std::string* written);

}  // namespace opgraft::model
