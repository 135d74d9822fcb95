// What a graph declares about its values: in value_info, or as its inputs and outputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "pyop/spec.h"

namespace opgraft::model {

struct DeclaredValue {
  std::int64_t element_type = 0;  ///< 0 where it is left open
  pyop::DeclaredShape shape;
};
using DeclaredValues = std::map<std::string_view, DeclaredValue>;

/// The name and the meaning of a ValueInfoProto.
std::pair<std::string_view, DeclaredValue> ReadValueInfo(std::string_view value_info);

/// The name and the type of a TensorProto.
std::pair<std::string_view, DeclaredValue> ReadTensorHead(std::string_view tensor);

/// A ValueInfoProto. Without a shape it gives the type alone, for a rank would be taken for the
/// truth; the sizes that are open have no symbols.
std::string WriteValueInfo(std::string_view name, const DeclaredValue& value);

}  // namespace opgraft::model
