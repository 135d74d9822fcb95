// The context of a schema's inference function, and the functions that inference functions call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "opgraft/contrib/proto.h"

#pragma GCC visibility push(hidden)
namespace ONNX_NAMESPACE {

class InferenceContext {
 public:
  virtual ~InferenceContext() = default;

  /// Returns the node's attribute or the schema's default; nullptr if there is neither.
  virtual const AttributeProto* getAttribute(const std::string& name) const = 0;
  virtual std::size_t getNumInputs() const = 0;
  /// Returns nullptr if the input is absent.
  virtual const TypeProto* getInputType(std::size_t index) const = 0;
  /// Returns the value of an input if it is already known, else nullptr.
  virtual const TensorProto* getInputData(std::size_t index) const = 0;
  /// Returns the declared number if the host does not know how many outputs the node has.
  virtual std::size_t getNumOutputs() const = 0;
  virtual TypeProto* getOutputType(std::size_t index) = 0;

  bool hasInput(std::size_t index) const {
    return index < getNumInputs() && getInputType(index) != nullptr;
  }
  bool hasOutput(std::size_t index) const { return index < getNumOutputs(); }
};

using InferenceFunction = std::function<void(InferenceContext&)>;

// Attributes: the node's value, or `fallback`.
std::int64_t getAttribute(const InferenceContext& ctx, const std::string& name,
                          std::int64_t fallback);
inline std::int64_t getAttribute(const InferenceContext& ctx, const std::string& name,
                                 int fallback) {
  return getAttribute(ctx, name, std::int64_t{fallback});
}
float getAttribute(const InferenceContext& ctx, const std::string& name, float fallback);
std::string getAttribute(const InferenceContext& ctx, const std::string& name,
                         const std::string& fallback);
inline std::string getAttribute(const InferenceContext& ctx, const std::string& name,
                                const char* fallback) {
  return getAttribute(ctx, name, std::string(fallback));
}
/// Returns false if there is no such attribute.
bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<std::int64_t>& values);
bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<float>& values);
bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<std::string>& values);

// Queries about shapes.
bool hasShape(const TypeProto& type);
bool hasInputShape(const InferenceContext& ctx, std::size_t index);
bool hasNInputShapes(const InferenceContext& ctx, std::size_t count);
/// Throws if the shape is not known.
const TensorShapeProto& getInputShape(const InferenceContext& ctx, std::size_t index);
/// Returns nullptr if the shape is not known.
const TensorShapeProto* getOptionalInputShape(const InferenceContext& ctx, std::size_t index);
/// Throws if the input's rank is known and differs.
void checkInputRank(const InferenceContext& ctx, std::size_t index, int rank);

// Types and shapes of outputs.
TensorShapeProto* getOutputShape(InferenceContext& ctx, std::size_t index);
void propagateElemTypeFromInputToOutput(InferenceContext& ctx, std::size_t input,
                                        std::size_t output);
/// The attribute is of kind INT and holds ONNX's number of an element type.
void propagateElemTypeFromAttributeToOutput(
    InferenceContext& ctx, const std::string& name, std::size_t output,
    TensorProto_DataType fallback = TensorProto_DataType_UNDEFINED);
/// The attribute is of kind INTS.
void propagateShapeFromAttributeToOutput(InferenceContext& ctx, const std::string& name,
                                         std::size_t output);
/// Does nothing if the input's shape is not known.
void propagateShapeFromInputToOutput(InferenceContext& ctx, std::size_t input, std::size_t output);
void propagateShapeAndTypeFromFirstInput(InferenceContext& ctx);
void updateOutputElemType(InferenceContext& ctx, std::size_t output, std::int32_t type);
void updateOutputShape(InferenceContext& ctx, std::size_t output, const TensorShapeProto& shape);
void updateOutputShape(InferenceContext& ctx, std::size_t output,
                       std::initializer_list<TensorShapeProto::Dimension> dims);

// Arithmetic with shapes.
void multidirectionalBroadcastShapeInference(const std::vector<const TensorShapeProto*>& shapes,
                                             TensorShapeProto& result);
void bidirectionalBroadcastShapeInference(const TensorShapeProto& left,
                                          const TensorShapeProto& right, TensorShapeProto& result);
/// Adds to `target` what is known about `source`; throws if they contradict each other.
void mergeInDimensionInfo(const TensorShapeProto::Dimension& source,
                          TensorShapeProto::Dimension& target, int index);
void mergeInShapeInfo(const TensorShapeProto& source, TensorShapeProto& target);
void unifyDim(const Dim& source, Dim& target);
void unifyDim(Dim& dim, std::int64_t value);
/// Unifies `dim` with an axis of an input. Does nothing if the shape is not known; throws if there
/// is no such axis.
void unifyInputDim(const InferenceContext& ctx, std::size_t input, int axis, Dim& dim);

/// The product is unknown if a factor is, except that 1 times a size is that size.
Dim operator*(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, std::int64_t b);
/// Rounds down.
Dim operator/(const Dim& a, std::int64_t b);
/// Returns the product of the axes in [first, end).
Dim multiplyDims(const TensorShapeProto& shape, int first, int end);

}  // namespace ONNX_NAMESPACE
#pragma GCC visibility pop
