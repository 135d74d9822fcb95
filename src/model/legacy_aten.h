// ATen nodes as torch's legacy exporter writes them (ONNX_ATEN_FALLBACK), put into our encoding.
#pragma once

#include <string>
#include <string_view>

#include "model/constants.h"
#include "model/declared_values.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The bytes of the node in the encoding of docs/aten.md. Its arguments stand among its inputs, in
/// the order of the operator's schema, or are attributes; which overload is meant must often be
/// told from them. A ModelError where no overload fits.
Status ConvertLegacyAten(std::string_view node, const NodeHead& head,
                         const DeclaredValues& declared, Constants& constants,
                         std::string* written);

}  // namespace opgraft::model
