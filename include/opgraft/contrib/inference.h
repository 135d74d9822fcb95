// What the inference function of a schema may ask and say, and the functions that such functions
// usually call.
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

  /// As in the node, or the schema's default; nullptr where there is neither.
  virtual const AttributeProto* getAttribute(const std::string& name) const = 0;
  virtual std::size_t getNumInputs() const = 0;
  /// nullptr where the input is absent.
  virtual const TypeProto* getInputType(std::size_t index) const = 0;
  /// The value of an input where it is known already, else nullptr.
  virtual const TensorProto* getInputData(std::size_t index) const = 0;
  /// As declared where the host does not tell how many the node has.
  virtual std::size_t getNumOutputs() const = 0;
  virtual TypeProto* getOutputType(std::size_t index) = 0;

  bool hasInput(std::size_t index) const {
    return index < getNumInputs() && getInputType(index) != nullptr;
  }
  bool hasOutput(std::size_t index) const { return index < getNumOutputs(); }
};

using InferenceFunction = std::function<void(InferenceContext&)>;

// Attributes: of the node, or what is given here.
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
/// False where there is no such attribute.
bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<std::int64_t>& values);
bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<float>& values);
bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<std::string>& values);

// Asking for shapes.
bool hasShape(const TypeProto& type);
bool hasInputShape(const InferenceContext& ctx, std::size_t index);
bool hasNInputShapes(const InferenceContext& ctx, std::size_t count);
/// An error where it is not known.
const TensorShapeProto& getInputShape(const InferenceContext& ctx, std::size_t index);
/// nullptr where it is not known.
const TensorShapeProto* getOptionalInputShape(const InferenceContext& ctx, std::size_t index);
/// An error where the input's rank is known and another.
void checkInputRank(const InferenceContext& ctx, std::size_t index, int rank);

// Types and shapes of outputs.
TensorShapeProto* getOutputShape(InferenceContext& ctx, std::size_t index);
void propagateElemTypeFromInputToOutput(InferenceContext& ctx, std::size_t input,
                                        std::size_t output);
/// From an attribute of kind INT that holds ONNX's number of a type.
void propagateElemTypeFromAttributeToOutput(
    InferenceContext& ctx, const std::string& name, std::size_t output,
    TensorProto_DataType fallback = TensorProto_DataType_UNDEFINED);
/// From an attribute of kind INTS.
void propagateShapeFromAttributeToOutput(InferenceContext& ctx, const std::string& name,
                                         std::size_t output);
/// Nothing where the input's shape is not known.
void propagateShapeFromInputToOutput(InferenceContext& ctx, std::size_t input, std::size_t output);
void propagateShapeAndTypeFromFirstInput(InferenceContext& ctx);
void updateOutputElemType(InferenceContext& ctx, std::size_t output, std::int32_t type);
void updateOutputShape(InferenceContext& ctx, std::size_t output, const TensorShapeProto& shape);
void updateOutputShape(InferenceContext& ctx, std::size_t output,
                       std::initializer_list<TensorShapeProto::Dimension> dims);

// Arithmetic of shapes.
void multidirectionalBroadcastShapeInference(const std::vector<const TensorShapeProto*>& shapes,
                                             TensorShapeProto& result);
void bidirectionalBroadcastShapeInference(const TensorShapeProto& left,
                                          const TensorShapeProto& right, TensorShapeProto& result);
/// What is known of `source` is known of `target` from now on; an error where they differ.
void mergeInDimensionInfo(const TensorShapeProto::Dimension& source,
                          TensorShapeProto::Dimension& target, int index);
void mergeInShapeInfo(const TensorShapeProto& source, TensorShapeProto& target);
void unifyDim(const Dim& source, Dim& target);
void unifyDim(Dim& dim, std::int64_t value);
/// Unifies `dim` with an axis of an input; nothing where the shape is not known, an error where
/// there is no such axis.
void unifyInputDim(const InferenceContext& ctx, std::size_t input, int axis, Dim& dim);

/// Sizes that are not all known multiply to one that is not, but for 1.
Dim operator*(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, std::int64_t b);
/// Rounds down.
Dim operator/(const Dim& a, std::int64_t b);
/// The product of the axes from `first` on, before `end`.
Dim multiplyDims(const TensorShapeProto& shape, int first, int end);

}  // namespace ONNX_NAMESPACE
#pragma GCC visibility pop
