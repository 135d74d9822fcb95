// The types of the values that ONNX's own operators compute, from the types of their inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/node_parts.h"

namespace opgraft::model {

/// The type of a value: ONNX's number of the element type for a tensor, plus one of the constants
/// below for anything else. 0 if it is not known.
using ValueType = std::int64_t;
inline constexpr ValueType kSequenceOf = 1000;
inline constexpr ValueType kOptionalOf = 2000;  // of a tensor, or with kSequenceOf of a sequence

/// The numbers of the element types that have rules of their own.
namespace element {
inline constexpr ValueType kFloat32 = 1;
inline constexpr ValueType kUint8 = 2;
inline constexpr ValueType kInt8 = 3;
inline constexpr ValueType kUint16 = 4;
inline constexpr ValueType kInt16 = 5;
inline constexpr ValueType kInt32 = 6;
inline constexpr ValueType kInt64 = 7;
inline constexpr ValueType kBool = 9;
inline constexpr ValueType kFloat16 = 10;
inline constexpr ValueType kFloat64 = 11;
inline constexpr ValueType kUint32 = 12;
inline constexpr ValueType kBfloat16 = 16;
}  // namespace element

inline bool IsTensor(ValueType type) { return type > 0 && type < kSequenceOf; }

/// Returns a name such as "float32" or "seq(bfloat16)".
std::string TypeName(ValueType type);

/// Reads a TypeProto; 0 for kinds of types that have no number.
ValueType ReadType(std::string_view type);

/// Returns the name and the type of a ValueInfoProto.
std::pair<std::string_view, ValueType> ReadNamedType(std::string_view value_info);

/// Writes a TypeProto without a shape.
std::string WriteType(ValueType type);

/// Whether ONNX's own domain has the operator, in any version.
bool IsOnnxOperator(std::string_view op_type);

/// Returns the types of the node's outputs, one for each, in `version` of ONNX's own domain.
/// `inputs` has the type of each input, 0 for absent ones. The result is 0 where the type is not
/// known, and for operators with graphs inside.
std::vector<ValueType> InferTypes(const NodeParts& node, std::int64_t version,
                                  const std::vector<ValueType>& inputs);

/// Returns the name of the attribute that can set the type of the operator's output; "" if there is
/// none. Does not name the type that Cast, BitCast and constants are made for.
std::string_view TypeAttribute(std::string_view op_type);

}  // namespace opgraft::model
