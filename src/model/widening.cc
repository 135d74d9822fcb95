// Each operator is listed because someone looked at what it computes; an unknown one never widens.
#include "model/widening.h"

#include <algorithm>

#include "model/fields.h"

namespace opgraft::model {
namespace {

/// They move elements and compute nothing. (Scatter* may add or multiply.)
constexpr std::string_view kMoving =
    " CenterCropPad Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND "
    "Identity MaxUnpool Pad Reshape ReverseSequence Scatter ScatterElements ScatterND Slice "
    "SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu Unsqueeze Where ";

/// Arithmetic on floats in which a small difference of an input stays small, and which is more
/// precise in a wider type. QuantizeLinear is missing: it rounds a quotient, whose own type decides
/// where it is rounded to.
constexpr std::string_view kSmooth =
    " Abs Acos Acosh Add AffineGrid Asin Asinh Atan Atanh Attention AveragePool BatchNormalization "
    "BlackmanWindow CausalConvWithState Celu Clip Col2Im Conv ConvTranspose Cos Cosh CumProd "
    "CumSum DFT DeformConv DequantizeLinear Det Div Dropout Einsum Elu Erf Exp EyeLike Gelu Gemm "
    "GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization GRU HammingWindow HannWindow "
    "HardSigmoid HardSwish InstanceNormalization LRN LSTM LayerNormalization LeakyRelu "
    "LinearAttention Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool Mean "
    "MeanVarianceNormalization MelWeightMatrix Min Mish Mul NegativeLogLikelihoodLoss Neg PRelu "
    "Pow RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare Relu Resize RotaryEmbedding STFT Selu Sigmoid Sin Sinh "
    "Softmax SoftmaxCrossEntropyLoss Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh "
    "Upsample ";

/// They compare, round or count, so that a small difference of an input may become a large one.
constexpr std::string_view kStepwise =
    " ArgMax ArgMin Bernoulli Ceil Equal Floor Greater GreaterOrEqual GridSample Hardmax IsInf "
    "IsNaN Less LessOrEqual MaxRoiPool Mod Multinomial NonZero OneHot Range RoiAlign Round Shrink "
    "Sign ThresholdedRelu TopK Unique ";

/// On integers, the wide result cut to the narrow type is the narrow result. The reasons:
/// - sums, differences, negation and bits: their lower bits depend on lower bits only;
/// - quotients and remainders: both values fit, and only the smallest integer / -1 does not, which
///   the cut turns into the smallest integer again;
/// - comparisons and choices (Clip without limits clips nothing in either type): the same values.
/// Missing because they differ: ReduceMax and ReduceMin (of nothing, they give the limits of their
/// type), MaxPool (its padding does), ReduceMean and AveragePool (they may round), Resize, Gemm;
/// and ReduceSum, ReduceProd, ReduceSumSquare, ReduceL1 and Einsum, because ONNX Runtime reduces
/// integers in float64: a sum beyond 2^53 is rounded, and one beyond 2^63 is the largest integer.
constexpr std::string_view kWhole =
    " Abs Add ArgMax ArgMin BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Clip CumSum Div Equal "
    "Greater GreaterOrEqual Less LessOrEqual Max Min Mod Neg NonZero OneHot Range "
    "Relu Sign Sub TopK Unique ";

/// The same for products, but only in int64, in which products of narrow integers fit.
constexpr std::string_view kProducts = " CumProd MatMul Mul PRelu ";

/// `list` begins and ends with a space.
bool Has(std::string_view list, std::string_view name) {
  if (name.empty() || name.find(' ') != name.npos) return false;
  for (std::size_t at = list.find(name); at != list.npos; at = list.find(name, at + 1)) {
    if (list[at - 1] == ' ' && list[at + name.size()] == ' ') return true;
  }
  return false;
}

bool IsNarrowFloat(ValueType type) {
  return type == element::kFloat16 || type == element::kBfloat16;
}

bool FitsInt32(ValueType type) {
  return type == element::kInt8 || type == element::kUint8 || type == element::kInt16 ||
         type == element::kUint16;
}

bool IsNarrowInteger(ValueType type) {
  return FitsInt32(type) || type == element::kInt32 || type == element::kUint32;
}

/// Whether a node that moves elements also adds or multiplies them.
bool Reduces(const NodeParts& node) {
  const std::string_view reduction = ReadText(node.Find("reduction"), tag::kAttributeString);
  return !reduction.empty() && reduction != "none";
}

/// The integers in which a node may run.
std::vector<ValueType> WiderIntegers(const NodeParts& node, const std::vector<ValueType>& inputs) {
  const std::string_view name = node.head.op_type;
  // A shift by the width of the type or more moves all bits out, in both types. Of signed numbers
  // there are no shifts before opset 28.
  if (name == "BitShift") return {element::kUint32};
  // The power itself is computed in floats, whose overflow is not that of integers.
  if (name == "Pow") {
    return !inputs.empty() && IsNarrowInteger(inputs[0]) && inputs[0] != element::kInt32
               ? std::vector<ValueType>()
               : std::vector<ValueType>{element::kInt32};
  }
  if (Has(kProducts, name) || Reduces(node)) return {element::kInt64};
  if (Has(kWhole, name) || Has(kMoving, name)) return {element::kInt32, element::kInt64};
  return {};
}

}  // namespace

ValueType Wider::Of(ValueType type) const {
  if (IsNarrowFloat(type)) return floats != 0 ? floats : type;
  if (integers == element::kUint32)
    return type == element::kUint8 || type == element::kUint16 ? element::kUint32 : type;
  if (FitsInt32(type) && integers != 0) return integers;
  return IsNarrowInteger(type) && integers == element::kInt64 ? element::kInt64 : type;
}

bool HasWider(ValueType type) { return IsNarrowFloat(type) || IsNarrowInteger(type); }

Widening WideningOf(const NodeParts& node) {
  const std::string_view name = node.head.op_type;
  Widening widening;
  widening.moves = Has(kMoving, name);
  widening.needs_rounded = Has(kStepwise, name);
  widening.floats = widening.moves || widening.needs_rounded || Has(kSmooth, name);
  widening.integers = widening.moves || name == "BitShift" || name == "Pow" || Has(kWhole, name) ||
                      Has(kProducts, name);
  widening.reads_shape = name == "Shape" || name == "Size";
  if (widening.moves && Reduces(node)) widening.moves = false;
  // The second output has the places of the largest elements.
  if (name == "MaxPool" && node.outputs.size() > 1) widening.needs_rounded = true;
  return widening;
}

std::vector<Wider> WiderTypes(const NodeParts& node, const std::vector<ValueType>& inputs,
                              const std::vector<ValueType>& outputs) {
  const Widening widening = WideningOf(node);
  const auto any = [&](bool (*is_it)(ValueType)) {
    return std::any_of(inputs.begin(), inputs.end(), is_it) ||
           std::any_of(outputs.begin(), outputs.end(), is_it);
  };
  const bool has_floats = widening.floats && any(IsNarrowFloat);
  const std::vector<ValueType> integers = widening.integers && any(IsNarrowInteger)
                                              ? WiderIntegers(node, inputs)
                                              : std::vector<ValueType>();
  std::vector<Wider> wider;
  if (has_floats) wider.push_back({.floats = element::kFloat32});
  for (const ValueType type : integers) wider.push_back({.integers = type});
  if (!has_floats) return wider;
  for (const ValueType type : integers)
    wider.push_back({.floats = element::kFloat32, .integers = type});
  return wider;
}

}  // namespace opgraft::model
