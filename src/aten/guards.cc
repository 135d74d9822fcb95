// What was found to crash libtorch when operators were called with arguments that make no sense
// (tests/aten_operators.py).
#include "aten/guards.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr std::pair<std::string_view, Guard> kGuards[] = {
    {"ctc_loss", CheckLabels},
    {"_ctc_loss", CheckLabels},
    {"batch_norm", CheckStatistics},
    {"native_batch_norm", CheckStatistics},
    {"_native_batch_norm_legit", CheckStatistics},
    {"_native_batch_norm_legit_functional", CheckStatistics},
    {"_native_batch_norm_legit_no_training", CheckStatistics},
    {"native_group_norm", CheckGroups},
    {"scaled_dot_product_attention", CheckAttention},
    {"_scaled_dot_product_flash_attention_for_cpu", CheckFlashAttention},
    {"_masked_softmax", CheckMaskedSoftmax},
    {"gcd", CheckNotSmallest},
    {"lcm", CheckNotSmallest},
    {"div", CheckQuotient},
    {"divide", CheckQuotient},
    {"repeat_interleave", CheckRepeats},
    {"lu_unpack", CheckFactorsOfUnpack},
    {"lu_solve", CheckFactorsOfOldSolve},
    {"linalg_lu_solve", CheckFactorsOfSolve},
    {"linalg_ldl_solve", CheckBlocks},
    {"linalg_eigvals", CheckFinite},
    {"_linalg_eigvals", CheckFinite},
    {"_pdist_forward", CheckPoints},
    {"segment_reduce", CheckSegments},
    {"lstm", CheckLstm},
    {"gru", CheckGru},
    {"rnn_tanh", CheckRnn},
    {"rnn_relu", CheckRnn},
    {"grid_sampler", CheckGrid},
    {"grid_sampler_2d", CheckGrid},
    {"grid_sampler_3d", CheckGrid},
    {"upsample_nearest1d", CheckResampling},
    {"upsample_nearest2d", CheckResampling},
    {"upsample_nearest3d", CheckResampling},
    {"_upsample_nearest_exact1d", CheckResampling},
    {"_upsample_nearest_exact2d", CheckResampling},
    {"_upsample_nearest_exact3d", CheckResampling},
    {"upsample_linear1d", CheckResampling},
    {"upsample_bilinear2d", CheckResampling},
    {"upsample_trilinear3d", CheckResampling},
    {"upsample_bicubic2d", CheckResampling},
    {"_upsample_bilinear2d_aa", CheckResampling},
    {"_upsample_bicubic2d_aa", CheckResampling},
    {"_upsample_lanczos2d_aa", CheckResampling},
};

}  // namespace

bool LieWithin(const InputTensor& tensor, std::int64_t least, std::int64_t most) {
  const std::size_t count = Count(tensor.shape);
  if (count != 0 && tensor.readable() == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<std::int64_t> value = ReadInteger(tensor, i);
    if (value && (*value < least || *value > most)) return false;
  }
  return true;
}

std::string NumberText(double number) {
  char text[32];
  (void)std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

std::optional<std::int64_t> Product(std::int64_t one, std::int64_t other) {
  if (one < 0 || other < 0) return std::nullopt;
  if (other != 0 && one > std::numeric_limits<std::int64_t>::max() / other) return std::nullopt;
  return one * other;
}

Guard FindGuard(std::string_view operator_name) {
  for (const auto& [name, guard] : kGuards) {
    if (name == operator_name) return guard;
  }
  return nullptr;
}

bool IsSize(std::string_view parameter) {
  constexpr std::string_view kSizes[] = {"kernel_size", "stride",         "padding", "dilation",
                                         "output_size", "output_padding", "pad"};
  return std::find(std::begin(kSizes), std::end(kSizes), parameter) != std::end(kSizes);
}

}  // namespace opgraft::aten
