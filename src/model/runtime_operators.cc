// The list of docs/ContribOperators.md of ONNX Runtime 1.28, which has all that 1.19 has.
#include "model/runtime_operators.h"

#include "model/runtime_limits.h"

namespace opgraft::model {
namespace {

constexpr std::string_view kContribOperators =
    " "
    "Attention AttnLSTM BeamSearch BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu "
    "BifurcationDetector BitmaskBiasDropout BitmaskDropout CDist CausalConvWithState ComplexMul "
    "ComplexMulConj ConvTransposeWithDynamicPads CropAndResize DecoderAttention "
    "DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention DequantizeBFP DequantizeLinear "
    "DequantizeWithOrder DynamicQuantizeLSTM DynamicQuantizeMatMul DynamicTimeWarping EPContext "
    "EmbedLayerNormalization ExpandDims FastGelu FusedConv FusedGemm FusedMatMul "
    "FusedMatMulActivation GatedRelativePositionBias GatherBlockQuantized GatherND Gelu "
    "GemmFastGelu GemmFloat8 GemmaRotaryEmbedding GreedySearch GridSample GroupNorm "
    "GroupQueryAttention Inverse Irfft LinearAttention LongformerAttention MatMulBnb4 MatMulFpQ4 "
    "MatMulInteger16 MatMulIntegerToFloat MatMulNBits MatMulNBitsMlp MatMulNBitsQkv "
    "MaxpoolWithMask MoE MulInteger MultiHeadAttention MurmurHash3 NGramRepeatBlock NhwcConv "
    "NhwcFusedConv NhwcMaxPool PackedAttention PackedMultiHeadAttention Pad PagedAttention "
    "QAttention QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv "
    "QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid "
    "QLinearSoftmax QLinearWhere QMoE QOrderedAttention QOrderedGelu QOrderedLayerNormalization "
    "QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeLinear QuantizeWithOrder "
    "QuickGelu Range ReduceSumInteger RelativePositionBias RemovePadding RestorePadding Rfft "
    "RotaryEmbedding SampleOp Sampling SkipGroupNorm SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization Snpe SparseAttention SparseToDenseMatMul Tokenizer "
    "TorchEmbedding TransposeMatMul Trilu UnfoldTensor Unique WhisperBeamSearch "
    "WordConvEmbedding";

}  // namespace

bool RuntimeMayHave(std::string_view domain, std::string_view name) {
  if (domain != kContribDomain) return true;
  if (name.find(' ') != std::string_view::npos) return false;  // which separates them
  for (std::size_t at = kContribOperators.find(name); at != std::string_view::npos;
       at = kContribOperators.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool ends = end == kContribOperators.size() || kContribOperators[end] == ' ';
    if (!name.empty() && ends && kContribOperators[at - 1] == ' ') return true;
  }
  return false;
}

}  // namespace opgraft::model
