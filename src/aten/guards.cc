// The operators that were found to crash libtorch, or not to end, when they were called with
// arguments that make no sense (tests/aten_operators.py).
#include "aten/guards.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "aten/guard_functions.h"
#include "base/text.h"

namespace opgraft::aten {
namespace {

/// A tensor without elements takes no memory, but an operator may still loop over its other
/// dimensions.
constexpr std::int64_t kMostEmpty = std::int64_t{1} << 20U;

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
    // Calls that would not end.
    {"matrix_power", CheckPower},
    {"linalg_matrix_power", CheckPower},
    {"diff", CheckDifferences},
    {"mvlgamma", CheckGammas},
    {"special_multigammaln", CheckGammas},
    {"combinations", CheckChosen},
    {"meshgrid", CheckGrids},
    {"cartesian_prod", CheckGrids},
    {"linalg_multi_dot", CheckChain},
    {"chain_matmul", CheckChain},
    {"max_pool1d", CheckPadding},
    {"max_pool2d", CheckPadding},
    {"max_pool3d", CheckPadding},
    {"tensor_split", CheckSections},
    {"hsplit", CheckSections},
    {"vsplit", CheckSections},
    {"dsplit", CheckSections},
    {"chunk", CheckChunks},
    {"unsafe_chunk", CheckChunks},
    {"unbind", CheckUnbound},
    {"unbind_copy", CheckUnbound},
    {"split", CheckSplit},
    {"split_copy", CheckSplit},
    {"unsafe_split", CheckSplit},
    {"special_zeta", CheckZeta},
    {"polygamma", CheckPolygamma},
    {"special_polygamma", CheckPolygamma},
    {"special_chebyshev_polynomial_t", CheckDegree},
    {"special_chebyshev_polynomial_u", CheckDegree},
    {"special_chebyshev_polynomial_v", CheckDegree},
    {"special_chebyshev_polynomial_w", CheckDegree},
    {"special_hermite_polynomial_h", CheckDegree},
    {"special_hermite_polynomial_he", CheckDegree},
    {"special_laguerre_polynomial_l", CheckDegree},
    {"special_legendre_polynomial_p", CheckDegree},
    {"special_shifted_chebyshev_polynomial_t", CheckDegree},
    {"special_shifted_chebyshev_polynomial_u", CheckDegree},
    {"special_shifted_chebyshev_polynomial_v", CheckDegree},
    {"special_shifted_chebyshev_polynomial_w", CheckDegree},
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

bool IsLong(std::string_view parameter) {
  constexpr std::string_view kLong[] = {"input_lengths", "target_lengths", "split_size",
                                        "split_sizes",   "indices",        "path"};
  return std::find(std::begin(kLong), std::end(kLong), parameter) != std::end(kLong);
}

std::string CheckShape(const InputTensor& input) {
  if (input.shape.size() > kMostDimensions) {
    return "expected at most " + std::to_string(kMostDimensions) + " dimensions, got " +
           std::to_string(input.shape.size());
  }
  if (std::find(input.shape.begin(), input.shape.end(), 0) == input.shape.end()) return "";
  std::optional<std::int64_t> product = 1;
  for (const std::int64_t size : input.shape) {
    if (product && size != 0) product = Product(*product, size);
  }
  if (product && *product <= kMostEmpty) return "";
  return "expected a tensor without elements whose other sizes multiply to at most 2^20, got [" +
         DimensionsText(input.shape) + "]";
}

}  // namespace opgraft::aten
