// The operators in docs/ContribOperators.md of ONNX Runtime 1.28, which include all those of 1.19.
#include "model/runtime_operators.h"

#include "model/fields.h"
#include "model/onnx_tags.h"
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
  if (name.find(' ') != std::string_view::npos) return false;  // spaces separate the names
  for (std::size_t start = kContribOperators.find(name); start != std::string_view::npos;
       start = kContribOperators.find(name, start + 1)) {
    const std::size_t end = start + name.size();
    const bool ends = end == kContribOperators.size() || kContribOperators[end] == ' ';
    if (!name.empty() && ends && kContribOperators[start - 1] == ' ') return true;
  }
  return false;
}

bool RuntimeLacks(std::string_view node, const NodeHead& head) {
  if (head.domain == "ai.onnx.preview") return head.op_type == "FlexAttention";
  if (!IsDefaultDomain(head.domain)) return false;
  // Up to 1.31, there are schemas of Swish and of Attention 24, but no kernel, and no windows.
  if (head.op_type == "Swish") return true;
  if (head.op_type != "Attention") return false;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const std::string_view name = ReadText(reader.field().Bytes(), tag::kAttributeName);
    if (name == "left_window_size" || name == "right_window_size") return true;
  }
  return false;
}

}  // namespace opgraft::model
