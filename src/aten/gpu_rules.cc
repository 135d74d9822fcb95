// Taken from the assertions in libtorch's kernels for CUDA and from its list of kernels. The test
// that runs on a GPU compares the list with the installed libtorch.
#include "aten/gpu_rules.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr GpuRule kRules[] = {
    // Indices, for which kernels have assertions.
    {"index_select", CheckIndicesAlong, {"index"}},
    {"index_add", CheckIndicesAlong, {"index"}},
    {"index_copy", CheckIndicesAlong, {"index"}},
    {"index_reduce", CheckIndicesAlong, {"index"}},
    {"index_fill", CheckSignedIndicesAlong, {"index"}},
    {"gather", CheckIndicesAlong, {"index"}},
    {"scatter", CheckIndicesAlong, {"index"}},
    {"scatter_add", CheckIndicesAlong, {"index"}},
    {"scatter_reduce", CheckIndicesAlong, {"index"}},
    {"take", CheckIndicesOfAll, {"index"}},
    {"put", CheckIndicesOfAll, {"index"}},
    {"take_along_dim", CheckTakenAlong, {"indices"}},
    {"index", CheckIndicesOfEach, {"indices"}},
    {"_unsafe_index", CheckIndicesOfEach, {"indices"}},
    {"index_put", CheckIndicesOfEach, {"indices"}},
    {"embedding", CheckRows, {"indices"}},
    {"max_unpool2d", CheckUnpooling, {"indices"}},
    {"max_unpool3d", CheckUnpooling, {"indices"}},
    {"nll_loss", CheckClasses, {"target"}},
    {"nll_loss2d", CheckClasses, {"target"}},
    {"nll_loss_nd", CheckClasses, {"target"}},
    {"nll_loss_forward", CheckClasses, {"target"}},
    {"nll_loss2d_forward", CheckClasses, {"target"}},
    {"cross_entropy_loss", CheckClasses, {"target"}},
    {"one_hot", CheckOneHot, {"self"}},
    {"masked_scatter", CheckEnoughForMask, {"mask"}},
    {"repeat_interleave", CheckCountedRepeats, {"repeats"}},
    {"quantile", CheckQuantiles, {"q"}},
    {"nanquantile", CheckQuantiles, {"q"}},
    // Probabilities, likewise.
    {"bernoulli", CheckChances, {"self"}},
    {"bernoulli.Tensor", CheckChances, {"p"}},
    {"bernoulli.p", nullptr, {}},
    {"multinomial", CheckWeights, {"self"}},
    {"poisson", CheckRates, {"self"}},
    // Operators whose guard on the CPU reads numbers.
    {"lu_unpack", CheckFactorsOfUnpack, {"LU_pivots"}},
    {"lu_solve", CheckFactorsOfOldSolve, {"LU_pivots"}},
    {"linalg_lu_solve", CheckFactorsOfSolve, {"pivots"}},
    {"linalg_eigvals", CheckFinite, {"self"}},
    {"_linalg_eigvals", CheckFinite, {"self"}},
    {"lstm", CheckLstm, {"batch_sizes"}},
    {"gru", CheckGru, {"batch_sizes"}},
    {"rnn_tanh", CheckRnn, {"batch_sizes"}},
    {"rnn_relu", CheckRnn, {"batch_sizes"}},
    {"special_zeta", CheckZeta, {"other"}},
    {"polygamma", CheckPolygamma, {"self"}},
    {"special_polygamma", CheckPolygamma, {"self"}},
    {"special_chebyshev_polynomial_t", CheckDegree, {"n"}},
    {"special_chebyshev_polynomial_u", CheckDegree, {"n"}},
    {"special_chebyshev_polynomial_v", CheckDegree, {"n"}},
    {"special_chebyshev_polynomial_w", CheckDegree, {"n"}},
    {"special_hermite_polynomial_h", CheckDegree, {"n"}},
    {"special_hermite_polynomial_he", CheckDegree, {"n"}},
    {"special_laguerre_polynomial_l", CheckDegree, {"n"}},
    {"special_legendre_polynomial_p", CheckDegree, {"n"}},
    {"special_shifted_chebyshev_polynomial_t", CheckDegree, {"n"}},
    {"special_shifted_chebyshev_polynomial_u", CheckDegree, {"n"}},
    {"special_shifted_chebyshev_polynomial_v", CheckDegree, {"n"}},
    {"special_shifted_chebyshev_polynomial_w", CheckDegree, {"n"}},
    // An undefined quotient does not end the process on a GPU.
    {"gcd", nullptr, {}},
    {"lcm", nullptr, {}},
    {"div", nullptr, {}},
    {"divide", nullptr, {}},
};

constexpr std::string_view kOnHost[] = {
    // Without a kernel for CUDA.
    "_add_relu",
    "_histogramdd_bin_edges",
    "_histogramdd_from_bin_cts",
    "_histogramdd_from_bin_tensors",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_upsample_lanczos2d_aa",
    "_upsample_lanczos2d_aa_backward",
    "from_file",
    "histogram",
    "slow_conv3d",
    "slow_conv3d_forward",
    // With a kernel for CUDA that has assertions, or trusts its arguments.
    "_ctc_loss",
    "binary_cross_entropy",
    "binomial",
    "ctc_loss",
    "embedding_renorm",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "linalg_ldl_solve",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_margin_loss_forward",
    "segment_reduce",
};

constexpr std::string_view kTakingNumbersOfHost[] = {
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "clamp_max",
    "clamp_min",
    "copysign",
    "div",
    "divide",
    "eq",
    "fill",
    "float_power",
    "floor_divide",
    "fmod",
    "ge",
    "greater",
    "gt",
    "greater_equal",
    "le",
    "less",
    "less_equal",
    "lt",
    "masked_fill",
    "mul",
    "multiply",
    "ne",
    "not_equal",
    "pow",
    "remainder",
    "true_divide",
    "where",
    "xlogy",
    "special_xlog1py",
    "special_xlogy",
};

template <std::size_t kCount>
bool Has(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

GpuRule FindGpuRule(const Schema& schema) {
  const GpuRule* found = nullptr;
  for (const GpuRule& rule : kRules) {
    if (rule.name == schema.name && found == nullptr) found = &rule;
    const std::size_t dot = rule.name.find('.');
    if (dot != rule.name.npos && rule.name.substr(0, dot) == schema.name &&
        rule.name.substr(dot + 1) == schema.overload) {
      found = &rule;
    }
  }
  return found != nullptr ? *found : GpuRule{schema.name, FindGuard(schema.name), {}};
}

bool RunsOnHost(const Schema& schema) { return Has(kOnHost, schema.name); }

bool IsOnHost(const Schema& schema, std::string_view parameter) {
  return parameter == "batch_sizes" || parameter == "tensor_indices_or_sections" ||
         (parameter == "lengths" && schema.name == "_pack_padded_sequence");
}

bool TakesNumbersOfHost(std::string_view operator_name) {
  return Has(kTakingNumbersOfHost, operator_name);
}

std::span<const GpuRule> AllGpuRules() { return kRules; }

}  // namespace opgraft::aten
