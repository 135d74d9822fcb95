// The tables: limits measured on the wheels, changes read from onnx.defs (a test compares them).
#include "model/runtime_limits.h"

#include <iterator>
#include <string>

namespace opgraft::model {
namespace {

struct Runtime {
  RuntimeVersion version;  // and those after it up to the next row
  RuntimeLimits limits;
};

constexpr Runtime kRuntimes[] = {
    {{0, 0, 0}, {10, 21, false, 20}}, {{1, 21, 0}, {10, 22, false, 22}},
    {{1, 21, 1}, {10, 22, true, 22}}, {{1, 23, 0}, {11, 23, true, 22}},
    {{1, 24, 0}, {13, 25, true, 23}}, {{1, 25, 0}, {13, 26, true, 23}},
};

struct Opset {
  std::int64_t version;
  std::string_view changed;  // the operators that it brought or changed, each between two spaces
};

constexpr Opset kOpsets[] = {
    {22,
     " Acos Acosh Asin Asinh Atan Atanh AveragePool Bernoulli Conv ConvTranspose Cos Cosh "
     "DeformConv Det Dropout Elu EyeLike GRU GlobalAveragePool GlobalLpPool GlobalMaxPool "
     "GridSample HardSigmoid HardSwish InstanceNormalization LSTM LpNormalization LpPool MaxPool "
     "MaxRoiPool MaxUnpool Mish Multinomial NegativeLogLikelihoodLoss RNN RandomNormal "
     "RandomNormalLike RandomUniform RandomUniformLike RoiAlign Round Selu Sin Sinh Softplus "
     "Softsign Tan ThresholdedRelu "},
    {23,
     " Attention Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop "
     "Pad QuantizeLinear RMSNormalization Reshape RotaryEmbedding Scan Shape Size Squeeze "
     "Transpose Unsqueeze "},
    {24,
     " Attention Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop "
     "Pad QuantizeLinear Reshape Scan Shape Size SplitToSequence Squeeze Swish TensorScatter TopK "
     "Transpose Unsqueeze "},
    {25,
     " Attention Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop "
     "Pad QuantizeLinear Reshape Scan Shape Size Squeeze Transpose Unsqueeze "},
    {26, " BitCast CumProd "},
    {27, " CausalConvWithState LinearAttention Range "},
    {28,
     " BitShift Cast Celu Compress DepthToSpace DequantizeLinear Einsum Mod OneHot Optional "
     "OptionalGetElement OptionalHasElement QuantizeLinear ReduceLogSum ReduceLogSumExp "
     "ReverseSequence SpaceToDepth SwiGLU Unique "},
};

}  // namespace

RuntimeLimits LimitsOf(const RuntimeVersion& version) {
  RuntimeLimits limits = kRuntimes[0].limits;
  for (const Runtime& runtime : kRuntimes) {
    if (runtime.version <= version) limits = runtime.limits;
  }
  return limits;
}

bool IsSameOperator(std::string_view op_type, std::int64_t older, std::int64_t newer) {
  if (older == newer) return true;
  if (older < kOpsets[0].version - 1 || newer > std::end(kOpsets)[-1].version) return false;
  const std::string word = " " + std::string(op_type) + " ";
  for (const Opset& opset : kOpsets) {
    if (opset.version > older && opset.version <= newer && opset.changed.find(word) != word.npos) {
      return false;
    }
  }
  return true;
}

}  // namespace opgraft::model
