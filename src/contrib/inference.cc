// The functions that inference functions of schemas call.
#include "opgraft/contrib/inference.h"

#include <algorithm>

#include "opgraft/contrib/numbers.h"

namespace ONNX_NAMESPACE {
namespace {

/// Returns nullptr if there is no such attribute; fails if it is of another kind.
const AttributeProto* Find(const InferenceContext& ctx, const std::string& name,
                           AttributeProto::AttributeType type) {
  const AttributeProto* const attribute = ctx.getAttribute(name);
  if (attribute != nullptr && attribute->type() != type) {
    fail_type_inference("attribute '", name, "' is of kind ", attribute->type(), ", expected ",
                        type);
  }
  return attribute;
}

template <class T>
bool Copy(const Repeated<T>* from, std::vector<T>& to) {
  if (from == nullptr) return false;
  to.assign(from->begin(), from->end());
  return true;
}

std::string Text(const Dim& dim) {
  if (dim.has_dim_value()) return std::to_string(dim.dim_value());
  return dim.has_dim_param() ? dim.dim_param() : "?";
}

std::string Text(const TensorShapeProto& shape) {
  std::string text;
  for (const Dim& dim : shape.dim()) text += (text.empty() ? "" : ", ") + Text(dim);
  return "[" + text + "]";
}

Dim Known(std::int64_t value) {
  Dim dim;
  dim.set_dim_value(value);
  return dim;
}

bool IsOne(const Dim& dim) { return dim.has_dim_value() && dim.dim_value() == 1; }

TypeProto_Tensor* OutputTensor(InferenceContext& ctx, std::size_t output) {
  return ctx.getOutputType(output)->mutable_tensor_type();
}

}  // namespace

AttributeProto::AttributeProto(std::string name, const opgraft::AttributeValue& value)
    : name_(std::move(name)) {
  // In the order of the variant's alternatives.
  constexpr AttributeType kTypes[] = {UNDEFINED, FLOAT, INT, STRING, FLOATS, INTS, STRINGS, TENSOR};
  type_ = kTypes[value.index()];
  if (const auto* const f = std::get_if<float>(&value)) floats_.Add(*f);
  if (const auto* const i = std::get_if<std::int64_t>(&value)) ints_.Add(*i);
  if (const auto* const s = std::get_if<std::string>(&value)) strings_.Add(*s);
  if (const auto* const f = std::get_if<std::vector<float>>(&value)) floats_ = Repeated(*f);
  if (const auto* const i = std::get_if<std::vector<std::int64_t>>(&value)) ints_ = Repeated(*i);
  if (const auto* const s = std::get_if<std::vector<std::string>>(&value)) strings_ = Repeated(*s);
  if (const auto* const t = std::get_if<opgraft::TensorValue>(&value)) {
    const auto* const bytes = reinterpret_cast<const char*>(t->bytes().data());
    tensor_ = {t->element_type(),
               {t->shape().begin(), t->shape().end()},
               std::string(bytes, t->bytes().size()),
               t->strings()};
  }
}

std::int64_t getAttribute(const InferenceContext& ctx, const std::string& name,
                          std::int64_t fallback) {
  const AttributeProto* const found = Find(ctx, name, AttributeProto::INT);
  return found != nullptr ? found->i() : fallback;
}

float getAttribute(const InferenceContext& ctx, const std::string& name, float fallback) {
  const AttributeProto* const found = Find(ctx, name, AttributeProto::FLOAT);
  return found != nullptr ? found->f() : fallback;
}

std::string getAttribute(const InferenceContext& ctx, const std::string& name,
                         const std::string& fallback) {
  const AttributeProto* const found = Find(ctx, name, AttributeProto::STRING);
  return found != nullptr ? found->s() : fallback;
}

bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<std::int64_t>& values) {
  const AttributeProto* const found = Find(ctx, name, AttributeProto::INTS);
  return Copy(found != nullptr ? &found->ints() : nullptr, values);
}

bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<float>& values) {
  const AttributeProto* const found = Find(ctx, name, AttributeProto::FLOATS);
  return Copy(found != nullptr ? &found->floats() : nullptr, values);
}

bool getRepeatedAttribute(const InferenceContext& ctx, const std::string& name,
                          std::vector<std::string>& values) {
  const AttributeProto* const found = Find(ctx, name, AttributeProto::STRINGS);
  return Copy(found != nullptr ? &found->strings() : nullptr, values);
}

bool hasShape(const TypeProto& type) {
  return type.has_tensor_type() && type.tensor_type().has_shape();
}

const TensorShapeProto* getOptionalInputShape(const InferenceContext& ctx, std::size_t index) {
  if (!ctx.hasInput(index) || !hasShape(*ctx.getInputType(index))) return nullptr;
  return &ctx.getInputType(index)->tensor_type().shape();
}

bool hasInputShape(const InferenceContext& ctx, std::size_t index) {
  return getOptionalInputShape(ctx, index) != nullptr;
}

bool hasNInputShapes(const InferenceContext& ctx, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!hasInputShape(ctx, i)) return false;
  }
  return true;
}

const TensorShapeProto& getInputShape(const InferenceContext& ctx, std::size_t index) {
  const TensorShapeProto* const shape = getOptionalInputShape(ctx, index);
  if (shape == nullptr) fail_shape_inference("the shape of input ", index, " is not known");
  return *shape;
}

void checkInputRank(const InferenceContext& ctx, std::size_t index, int rank) {
  const TensorShapeProto* const shape = getOptionalInputShape(ctx, index);
  if (shape != nullptr && shape->dim_size() != rank) {
    fail_shape_inference("Input ", index, " expected to have rank ", rank, " but has rank ",
                         shape->dim_size());
  }
}

TensorShapeProto* getOutputShape(InferenceContext& ctx, std::size_t index) {
  return OutputTensor(ctx, index)->mutable_shape();
}

void propagateElemTypeFromInputToOutput(InferenceContext& ctx, std::size_t input,
                                        std::size_t output) {
  if (!ctx.hasInput(input))
    fail_type_inference("Input ", input, " expected to have type but is null");
  updateOutputElemType(ctx, output, ctx.getInputType(input)->tensor_type().elem_type());
}

void propagateElemTypeFromAttributeToOutput(InferenceContext& ctx, const std::string& name,
                                            std::size_t output, TensorProto_DataType fallback) {
  const std::int64_t type = getAttribute(ctx, name, static_cast<std::int64_t>(fallback));
  if (type == TensorProto::UNDEFINED) {
    fail_type_inference("Value of attribute ", name, " not specified");
  }
  updateOutputElemType(ctx, output, static_cast<std::int32_t>(type));
}

void propagateShapeFromAttributeToOutput(InferenceContext& ctx, const std::string& name,
                                         std::size_t output) {
  std::vector<std::int64_t> sizes;
  if (!getRepeatedAttribute(ctx, name, sizes)) {
    fail_shape_inference("Attribute ", name, " should specify a shape");
  }
  TensorShapeProto shape;
  for (const std::int64_t size : sizes) {
    if (size < 0) fail_shape_inference("Negative values are not allowed in a shape specification");
    shape.add_dim()->set_dim_value(size);
  }
  updateOutputShape(ctx, output, shape);
}

void propagateShapeFromInputToOutput(InferenceContext& ctx, std::size_t input, std::size_t output) {
  if (const TensorShapeProto* const shape = getOptionalInputShape(ctx, input)) {
    updateOutputShape(ctx, output, *shape);
  }
}

void propagateShapeAndTypeFromFirstInput(InferenceContext& ctx) {
  propagateElemTypeFromInputToOutput(ctx, 0, 0);
  propagateShapeFromInputToOutput(ctx, 0, 0);
}

void updateOutputElemType(InferenceContext& ctx, std::size_t output, std::int32_t type) {
  OutputTensor(ctx, output)->set_elem_type(type);
}

void updateOutputShape(InferenceContext& ctx, std::size_t output, const TensorShapeProto& shape) {
  *getOutputShape(ctx, output) = shape;
}

void updateOutputShape(InferenceContext& ctx, std::size_t output,
                       std::initializer_list<TensorShapeProto::Dimension> dims) {
  TensorShapeProto shape;
  for (const Dim& dim : dims) *shape.add_dim() = dim;
  updateOutputShape(ctx, output, shape);
}

void multidirectionalBroadcastShapeInference(const std::vector<const TensorShapeProto*>& shapes,
                                             TensorShapeProto& result) {
  int rank = 0;
  for (const TensorShapeProto* const shape : shapes) rank = std::max(rank, shape->dim_size());
  for (int axis = 0; axis < rank; ++axis) {
    Dim dim = Known(1);
    for (const TensorShapeProto* const shape : shapes) {
      const int place = axis - (rank - shape->dim_size());
      if (place < 0 || IsOne(shape->dim(place))) continue;
      const Dim& next = shape->dim(place);
      const bool is_same =
          next.has_dim_param() && dim.has_dim_param() && next.dim_param() == dim.dim_param();
      if (IsOne(dim) || (next.has_dim_value() && !dim.has_dim_value())) {
        dim = next;  // an unknown size must be 1 or the same
      } else if (dim.has_dim_value() && next.has_dim_value()) {
        if (dim.dim_value() != next.dim_value()) {
          fail_shape_inference("Incompatible dimensions: ", Text(dim), " and ", Text(next),
                               " on axis ", axis);
        }
      } else if (!dim.has_dim_value() && !is_same) {
        dim = {};
      }
    }
    *result.add_dim() = dim;
  }
}

void bidirectionalBroadcastShapeInference(const TensorShapeProto& left,
                                          const TensorShapeProto& right, TensorShapeProto& result) {
  multidirectionalBroadcastShapeInference({&left, &right}, result);
}

void mergeInDimensionInfo(const Dim& source, Dim& target, int index) {
  if (source.has_dim_value() && target.has_dim_value()) {
    if (source.dim_value() != target.dim_value()) {
      fail_shape_inference(
          "Can't merge shape info. Both inferred and declared dimension have "
          "values but they differ. Inferred=",
          source.dim_value(), " Declared=", target.dim_value(), " Dimension=", index);
    }
  } else if (source.has_dim_value() || target.value_case() == Dim::VALUE_NOT_SET) {
    target = source;
  }
}

void mergeInShapeInfo(const TensorShapeProto& source, TensorShapeProto& target) {
  if (source.dim_size() != target.dim_size()) {
    fail_shape_inference("Mismatch between number of inferred and declared dimensions. inferred=",
                         Text(source), " declared=", Text(target));
  }
  for (int i = 0; i < source.dim_size(); ++i) {
    mergeInDimensionInfo(source.dim(i), *target.mutable_dim(i), i);
  }
}

void unifyDim(const Dim& source, Dim& target) {
  if (source.has_dim_value()) {
    unifyDim(target, source.dim_value());
  } else if (target.value_case() == Dim::VALUE_NOT_SET) {
    target = source;
  }
}

void unifyDim(Dim& dim, std::int64_t value) {
  if (dim.has_dim_value() && dim.dim_value() != value) {
    fail_shape_inference("Dimension mismatch in unification between ", dim.dim_value(), " and ",
                         value);
  }
  dim.set_dim_value(value);
}

void unifyInputDim(const InferenceContext& ctx, std::size_t input, int axis, Dim& dim) {
  const TensorShapeProto* const shape = getOptionalInputShape(ctx, input);
  if (shape == nullptr) return;
  if (axis < 0 || axis >= shape->dim_size()) {
    fail_shape_inference("Input ", input, " expected to have rank >", axis, " but has rank ",
                         shape->dim_size());
  }
  unifyDim(shape->dim(axis), dim);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.has_dim_value() && b.has_dim_value()) {
    return Known(SafeInt<std::int64_t>(a.dim_value()) * b.dim_value());
  }
  if (IsOne(a)) return b;
  return IsOne(b) ? a : Dim();
}

Dim operator*(const Dim& a, std::int64_t b) { return a * Known(b); }

Dim operator/(const Dim& a, std::int64_t b) {
  if (b == 1) return a;
  return a.has_dim_value() ? Known(SafeInt<std::int64_t>(a.dim_value()) / b) : Dim();
}

Dim multiplyDims(const TensorShapeProto& shape, int first, int end) {
  Dim product = Known(1);
  for (int i = first; i < end; ++i) product = product * shape.dim(i);
  return product;
}

}  // namespace ONNX_NAMESPACE
