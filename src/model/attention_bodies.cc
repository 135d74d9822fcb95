// The bodies of the kinds of attention, in matrix products and Softmax.
#include <algorithm>

#include "model/body_writers.h"

namespace opgraft::model {
namespace {

constexpr std::int64_t kLargestWindow = std::int64_t{1} << 40U;

std::string Window(std::int64_t size) {
  return "int64[1] {" + std::to_string(std::min(size, kLargestWindow)) + "}";
}

/// The steps from the keys and values of all positions, `keys` and `values`, to `typed_sums`:
/// scores, `change_scores`, Softmax, `change_shares`. Query heads share the heads of keys in
/// groups, without copies of the keys.
std::string WriteProducts(const std::string& scale, const std::string& change_scores,
                          const std::string& change_shares) {
  return R"(
  one = Constant <value: tensor = int64[1] {1}> ()
  two = Constant <value: tensor = int64[1] {2}> ()
  batch = Shape <start = 0, end = 1> (queries)
  query_heads = Shape <start = 1, end = 2> (queries)
  heads = Shape <start = 1, end = 2> (keys)
  length = Shape <start = 2, end = 3> (queries)
  total = Shape <start = 2, end = 3> (keys)
  key_size = Shape <start = 3, end = 4> (queries)
  value_size = Shape <start = 3, end = 4> (values)
  divisor = Max (heads, one)
  group = Div (query_heads, divisor)
  )" +
         (scale.empty() ? R"(
  key_size_float = Cast <to = 1> (key_size)
  root = Sqrt (key_size_float)
  scale = Reciprocal (root)
  )"
                        : "scale = Constant <value: tensor = float[1] {" + scale + "}> () ") +
         R"(
  half_scale_float = Sqrt (scale)
  half_scale = CastLike (half_scale_float, queries)
  scaled_queries = Mul (queries, half_scale)
  scaled_keys = Mul (keys, half_scale)
  grouped_shape = Concat <axis = 0> (batch, heads, group, length, key_size)
  grouped_queries = Reshape (scaled_queries, grouped_shape)
  turned_keys = Transpose <perm = [0, 1, 3, 2]> (scaled_keys)
  shared_keys = Unsqueeze (turned_keys, two)
  grouped_scores = MatMul (grouped_queries, shared_keys)
  scores_shape = Concat <axis = 0> (batch, query_heads, length, total)
  all_scores = Reshape (grouped_scores, scores_shape)
  )" + change_scores +
         change_shares +
         R"(
  typed_shares = CastLike (shares, values)
  grouped_shares_shape = Concat <axis = 0> (batch, heads, group, length, total)
  grouped_shares = Reshape (typed_shares, grouped_shares_shape)
  shared_values = Unsqueeze (values, two)
  grouped_sums = MatMul (grouped_shares, shared_values)
  sums_shape = Concat <axis = 0> (batch, query_heads, length, value_size)
  typed_sums = Reshape (grouped_sums, sums_shape)
  )";
}

std::string WriteScale(const BodyNode& node) {
  if (!node.Has("scale")) return "";
  const float scale = node.Real("scale", 0);
  if (!(scale >= 0)) throw NoBodyError("its attribute 'scale' is negative, expected at least 0");
  return AsText(scale);
}

/// Returns the type of a computation, which an attribute may name; 0: that of the scores.
std::int64_t ReadPrecision(const BodyNode& node) {
  const std::int64_t type = node.Integer("softmax_precision", 0);
  if (!node.Has("softmax_precision") || type == 1 || type == 10 || type == 11 || type == 16) {
    return type;
  }
  throw NoBodyError("its attribute 'softmax_precision' is " + std::to_string(type) +
                    ", expected 1, 10, 11 or 16");
}

/// Whether queries, keys and values are 3D, with their heads in one dimension.
bool IsPacked(const BodyNode& node) {
  const bool has_heads = node.Has("q_num_heads") || node.Has("kv_num_heads");
  if (has_heads) {
    node.IntegerFrom(1, "q_num_heads", 0);
    node.IntegerFrom(1, "kv_num_heads", 0);
  }
  const pyop::DeclaredShape shape = node.ShapeOf(0);
  if (shape && shape->size() != (has_heads ? 3 : 4)) {
    throw NoBodyError("its input Q has " + std::to_string(shape->size()) +
                      " dimensions, expected 3 with the attributes 'q_num_heads' and "
                      "'kv_num_heads', and 4 without");
  }
  return has_heads;
}

std::string Unpack(const std::string& packed, std::int64_t heads, const std::string& unpacked) {
  return unpacked + "_shape = Constant <value: tensor = int64[4] {0, 0, " + std::to_string(heads) +
         ", -1}> () " + unpacked + "_split = Reshape (" + packed + ", " + unpacked + "_shape) " +
         unpacked + " = Transpose <perm = [0, 2, 1, 3]> (" + unpacked + "_split) ";
}

/// What is allowed, as the text of nodes that compute `allowed` of bool, and whether there is any.
struct Allowed {
  std::string text;
  std::string last;  // the name of the value so far

  void And(const std::string& value) {
    if (last.empty()) {
      last = value;
    } else {
      text += "both_" + value + " = And (" + last + ", " + value + ") ";
      last = "both_" + value;
    }
  }
};

/// Writes `bias`, of the type of the scores; returns "" if nothing is masked.
std::string WriteBias(const BodyNode& node) {
  const bool has_mask = node.HasInput(3);
  const bool has_past = node.HasInput(4);
  const bool has_lengths = node.HasInput(6);
  const bool is_causal = node.Integer("is_causal", 0) != 0;
  const std::int64_t left = node.IntegerFrom(-1, "left_window_size", -1);
  const std::int64_t right = node.IntegerFrom(-1, "right_window_size", -1);
  Allowed allowed;
  if (is_causal || has_lengths || left >= 0 || right >= 0) {
    allowed.text += R"(
  start = Constant <value_int = 0> ()
  unit = Constant <value_int = 1> ()
  length_scalar = Squeeze (length)
  total_scalar = Squeeze (total)
  rows = Range (start, length_scalar, unit)
  columns = Range (start, total_scalar, unit)
  column_of_rows = Unsqueeze (rows, one)
  )";
    if (has_lengths) {
      allowed.text += R"(
  inner_axes = Constant <value: tensor = int64[3] {1, 2, 3}> ()
  lengths = Unsqueeze (nonpad_kv_seqlen, inner_axes)
  offset = Sub (lengths, length)
  is_filled = Less (columns, lengths)
  )";
      allowed.And("is_filled");
    } else if (has_past) {
      allowed.text += "offset = Shape <start = 2, end = 3> (past_key) ";
    } else {
      allowed.text += "offset = Constant <value: tensor = int64[1] {0}> () ";
    }
    allowed.text += "position = Add (column_of_rows, offset) ";
  }
  if (is_causal) {
    allowed.text += "is_past = LessOrEqual (columns, position) ";
    allowed.And("is_past");
  }
  if (left >= 0) {
    allowed.text += "left = Constant <value: tensor = " + Window(left) +
                    "> () first = Sub (position, left) is_near_left = "
                    "GreaterOrEqual (columns, first) ";
    allowed.And("is_near_left");
  }
  if (right >= 0) {
    allowed.text += "right = Constant <value: tensor = " + Window(right) +
                    "> () last = Add (position, right) is_near_right = "
                    "LessOrEqual (columns, last) ";
    allowed.And("is_near_right");
  }
  constexpr std::int64_t kBool = 9;
  const bool is_bool = has_mask && node.NeededType(3) == kBool;
  std::string text = R"(
  nothing = Constant <value: tensor = float {0}> ()
  infinite = Constant <value: tensor = float {-inf}> ()
  )" + allowed.text;
  if (!allowed.last.empty()) {
    text += "allowed_float = Where (" + allowed.last +
            ", nothing, infinite) allowed_bias = CastLike (allowed_float, all_scores) ";
  }
  if (has_mask) {
    text += is_bool ? "mask_float = Where (attn_mask, nothing, infinite) "
                      "short_mask = CastLike (mask_float, all_scores) "
                    : "short_mask = CastLike (attn_mask, all_scores) ";
    text += node.version() < 24 ? "mask = Identity (short_mask) " : R"(
  zero = Constant <value: tensor = int64[1] {0}> ()
  last_axis = Constant <value: tensor = int64[1] {-1}> ()
  mask_total = Shape <start = -1> (attn_mask)
  lacking = Sub (total, mask_total)
  padding = Max (lacking, zero)
  paddings = Concat <axis = 0> (zero, padding)
  masked_value = CastLike (infinite, all_scores)
  mask = Pad (short_mask, paddings, masked_value, last_axis)
  )";
  }
  if (has_mask && !allowed.last.empty()) return text + "bias = Add (mask, allowed_bias) ";
  if (has_mask) return text + "bias = Identity (mask) ";
  return allowed.last.empty() ? "" : text + "bias = Identity (allowed_bias) ";
}

}  // namespace

std::string WriteAttention(const BodyNode& node) {
  const bool is_packed = IsPacked(node);
  const bool has_past = node.HasInput(4);
  const bool gives_present = node.HasOutput(1) || node.HasOutput(2);
  if (has_past != node.HasInput(5)) {
    throw NoBodyError("it has one of 'past_key' and 'past_value', expected both or none");
  }
  if (node.HasInput(6) && (has_past || gives_present)) {
    throw NoBodyError(
        "it has 'nonpad_kv_seqlen' together with past or present keys, which exclude each other");
  }
  const std::int64_t mode = node.IntegerFrom(0, "qk_matmul_output_mode", 0);
  if (mode > 3) throw NoBodyError("its attribute 'qk_matmul_output_mode' is more than 3");
  const std::int64_t precision = ReadPrecision(node);
  const float softcap = node.Real("softcap", 0);
  std::string text =
      "Attention <is_causal, kv_num_heads, q_num_heads, qk_matmul_output_mode, scale, "
      "softcap, softmax_precision";
  if (node.version() >= 25) text += ", left_window_size, right_window_size";
  text += "> (Q, K, V, attn_mask?, past_key?, past_value?";
  if (node.version() >= 24) text += ", nonpad_kv_seqlen?";
  text += ") => (Y, present_key, present_value, qk_matmul_output) { ";
  if (is_packed) {
    const std::int64_t heads = node.Integer("kv_num_heads", 0);
    text += Unpack("Q", node.Integer("q_num_heads", 0), "queries") +
            Unpack("K", heads, "new_keys") + Unpack("V", heads, "new_values");
  } else {
    text += "queries = Identity (Q) new_keys = Identity (K) new_values = Identity (V) ";
  }
  text += has_past ? "keys = Concat <axis = 2> (past_key, new_keys) "
                     "values = Concat <axis = 2> (past_value, new_values) "
                   : "keys = Identity (new_keys) values = Identity (new_values) ";
  text += "present_key = Identity (keys) present_value = Identity (values) ";
  std::string scores;
  if (softcap != 0) {
    scores += "cap_float = Constant <value: tensor = float[1] {" + AsText(softcap) + "}> () " + R"(
  cap = CastLike (cap_float, all_scores)
  in_caps = Div (all_scores, cap)
  bent = Tanh (in_caps)
  capped = Mul (bent, cap)
  )";
  } else {
    scores += "capped = Identity (all_scores) ";
  }
  const std::string bias = WriteBias(node);
  scores += bias.empty() ? "biased = Identity (capped) " : bias + "biased = Add (capped, bias) ";
  scores += precision == 0 ? "precise = Identity (biased) "
                           : "precise = Cast <to = " + std::to_string(precision) + "> (biased) ";
  std::string shares =
      "raw_shares = Softmax (precise) plain_shares = CastLike (raw_shares, all_scores) ";
  // Softmax makes NaN of a row in which everything is masked; its shares are 0.
  shares += bias.empty() ? "shares = Identity (plain_shares) " : R"(
  bias_axis = Constant <value: tensor = int64[1] {-1}> ()
  largest_bias = ReduceMax (bias, bias_axis)
  infinite_bias = CastLike (infinite, bias)
  is_masked = Equal (largest_bias, infinite_bias)
  no_share = CastLike (nothing, all_scores)
  shares = Where (is_masked, no_share, plain_shares)
  )";
  text += WriteProducts(WriteScale(node), scores, shares);
  constexpr const char* kShown[] = {"all_scores", "capped", "biased", "shares"};
  text += std::string("qk_matmul_output = Identity (") + kShown[mode] + ") ";
  if (!is_packed) return text + "Y = CastLike (typed_sums, Q) }";
  return text + R"(
  typed_result = CastLike (typed_sums, Q)
  rows_of_heads = Transpose <perm = [0, 2, 1, 3]> (typed_result)
  width = Mul (query_heads, value_size)
  Y_shape = Concat <axis = 0> (batch, length, width)
  Y = Reshape (rows_of_heads, Y_shape)
  })";
}

/// The graphs of score_mod and prob_mod become branches that are always taken.
std::string WriteFlexAttention(const BodyNode& node) {
  std::int64_t precision = ReadPrecision(node);
  constexpr std::int64_t kFloat32 = 1;
  constexpr std::int64_t kFloat64 = 11;
  if (precision == 0) precision = node.NeededType(0) == kFloat64 ? kFloat64 : kFloat32;
  const std::string cast = "Cast <to = " + std::to_string(precision) + "> ";
  const auto change = [&](const std::string& graph, const std::string& value,
                          const std::string& changed) {
    if (!node.Has(graph)) return changed + " = Identity (" + value + ") ";
    return graph + "_integer = Constant <value_int = 1> () " + graph + "_always = Cast <to = 9> (" +
           graph + "_integer) " + changed + " = If (" + graph + "_always, " + value +
           ") <then_branch: graph = @" + graph + ", else_branch: graph = " + graph +
           "_unused () => (" + graph + "_same) { " + graph + "_same = Identity (" + value + ") }> ";
  };
  return "FlexAttention <prob_mod, scale, score_mod, softmax_precision> (Q, K, V) => "
         "(Y) { queries = Identity (Q) keys = Identity (K) values = " +
         cast + "(V) " +
         WriteProducts(WriteScale(node),
                       "precise = " + cast + "(all_scores) " +
                           change("score_mod", "precise", "changed_scores"),
                       "plain_shares = Softmax (changed_scores) " +
                           change("prob_mod", "plain_shares", "shares")) +
         "Y = CastLike (typed_sums, Q) }";
}

}  // namespace opgraft::model
