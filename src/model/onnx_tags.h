// The field numbers of onnx.proto that Opgraft reads or writes.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace opgraft::model {

/// The domain of ONNX's own operators has two names.
inline bool IsDefaultDomain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx";
}

/// Returns the canonical name of a domain: "" for ONNX's own.
inline std::string_view Normalized(std::string_view domain) {
  return IsDefaultDomain(domain) ? std::string_view() : domain;
}

namespace tag {

enum Model : std::uint32_t {
  kIrVersion = 1,
  kGraph = 7,
  kOpsetImport = 8,
  kMetadata = 14,
  kFunctions = 25,
};

enum Entry : std::uint32_t { kEntryKey = 1, kEntryValue = 2 };

enum OperatorSetId : std::uint32_t { kOpsetDomain = 1, kOpsetVersion = 2 };

enum Function : std::uint32_t {
  kFunctionName = 1,
  kFunctionInput = 4,
  kFunctionOutput = 5,
  kFunctionNode = 7,
  kFunctionOpsetImport = 9,
  kFunctionDomain = 10,
  kFunctionAttributeDefault = 11,
  kFunctionValueInfo = 12,
  kFunctionOverload = 13,
};

enum Graph : std::uint32_t {
  kGraphNode = 1,
  kGraphInitializer = 5,
  kGraphInput = 11,
  kGraphOutput = 12,
  kGraphValueInfo = 13,
  kGraphQuantizationAnnotation = 14,
  kGraphSparseInitializer = 15,
};

enum Node : std::uint32_t {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kNodeOpType = 4,
  kNodeAttribute = 5,
  kNodeDomain = 7,
  kNodeOverload = 8,
  kNodeMetadata = 9,
};

enum Attribute : std::uint32_t {
  kAttributeName = 1,
  kAttributeFloat = 2,
  kAttributeInt = 3,
  kAttributeString = 4,
  kAttributeTensor = 5,
  kAttributeGraph = 6,
  kAttributeFloats = 7,
  kAttributeInts = 8,
  kAttributeStrings = 9,
  kAttributeTensors = 10,
  kAttributeGraphs = 11,
  kAttributeTypeProto = 14,
  kAttributeTypeProtos = 15,
  kAttributeType = 20,
  kAttributeReference = 21,
  kAttributeSparseTensor = 22,
  kAttributeSparseTensors = 23,
};

/// AttributeProto.AttributeType.
enum AttributeType : std::int32_t {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraphAttribute = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphsAttribute = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

/// Returns ONNX's name for a kind of attribute, such as "TENSOR" for 4.
inline std::string AttributeTypeName(std::int64_t type) {
  constexpr std::string_view kNames[] = {
      "UNDEFINED",      "FLOAT",      "INT",        "STRING",  "TENSOR", "GRAPH",
      "FLOATS",         "INTS",       "STRINGS",    "TENSORS", "GRAPHS", "SPARSE_TENSOR",
      "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
  const bool is_known = type >= 0 && type < static_cast<std::int64_t>(std::size(kNames));
  return is_known ? std::string(kNames[type]) : "number " + std::to_string(type);
}

enum ValueInfo : std::uint32_t { kValueName = 1, kValueType = 2 };

/// TypeProto; the messages for all kinds of types have their element's type as field 1.
enum Type : std::uint32_t {
  kTensorType = 1,
  kSequenceType = 4,
  kOptionalType = 9,
  kElementType = 1,
  kTensorShape = 2,
};

enum Shape : std::uint32_t { kDimension = 1, kDimensionValue = 1 };

enum Tensor : std::uint32_t {
  kTensorDimensions = 1,
  kTensorDataType = 2,
  kTensorFloats = 4,
  kTensorInt32s = 5,
  kTensorStrings = 6,
  kTensorInt64s = 7,
  kTensorName = 8,
  kTensorRaw = 9,
  kTensorDoubles = 10,
  kTensorUint64s = 11,
  kTensorExternalData = 13,
  kTensorDataLocation = 14,
};

enum SparseTensor : std::uint32_t { kSparseValues = 1 };

/// TensorProto.DataLocation.
enum DataLocation : std::int32_t { kExternal = 1 };

}  // namespace tag
}  // namespace opgraft::model
