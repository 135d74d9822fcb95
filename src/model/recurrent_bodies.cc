// The bodies of operators that carry a state from one call to the next.
#include "model/body_writers.h"

namespace opgraft::model {
namespace {

std::string Scalar(std::int64_t number) { return "int64[1] {" + std::to_string(number) + "}"; }

/// The number of channels, if one of the shapes says it.
std::int64_t ChannelsOf(const BodyNode& node) {
  constexpr std::pair<std::size_t, std::size_t> kPlaces[] = {{0, 1}, {1, 0}, {2, 0}, {3, 1}};
  for (const auto& [input, dimension] : kPlaces) {
    const pyop::DeclaredShape shape = node.ShapeOf(input);
    if (shape && dimension < shape->size() && (*shape)[dimension] > 0) return (*shape)[dimension];
  }
  return 0;
}

}  // namespace

/// One step of the recurrence for each token, in float32, as the specification defines it.
std::string WriteLinearAttention(const BodyNode& node) {
  const std::int64_t query_heads = node.IntegerFrom(1, "q_num_heads", 0);
  const std::int64_t heads = node.IntegerFrom(1, "kv_num_heads", 0);
  if (query_heads % heads != 0) {
    throw NoBodyError("its attribute 'q_num_heads' is " + std::to_string(query_heads) +
                      ", expected a multiple of 'kv_num_heads', which is " + std::to_string(heads));
  }
  const std::string_view rule = node.Text("update_rule", "gated_delta");
  const bool has_decay = rule == "gated" || rule == "gated_delta";
  const bool has_beta = rule == "delta" || rule == "gated_delta";
  if (!has_decay && !has_beta && rule != "linear") {
    throw NoBodyError(
        "its attribute 'update_rule' is not one of 'linear', 'gated', 'delta' and 'gated_delta'");
  }
  if ((has_decay && !node.HasInput(4)) || (has_beta && !node.HasInput(5))) {
    throw NoBodyError("its update rule needs the input '" +
                      std::string(has_decay && !node.HasInput(4) ? "decay" : "beta") +
                      "', which is absent");
  }
  const float scale = node.Real("scale", 0);
  std::string text =
      "LinearAttention <chunk_size, kv_num_heads, q_num_heads, scale, update_rule> "
      "(query, key, value, past_state?, decay?, beta?) => (output, present_state) {"
      "query_heads = Constant <value: tensor = " +
      Scalar(query_heads) +
      "> ()"
      "heads = Constant <value: tensor = " +
      Scalar(heads) +
      "> ()"
      "group = Constant <value: tensor = " +
      Scalar(query_heads / heads) +
      "> ()"
      R"(
  one = Constant <value: tensor = int64[1] {1}> ()
  batch = Shape <start = 0, end = 1> (query)
  length = Shape <start = 1, end = 2> (query)
  query_width = Shape <start = 2, end = 3> (query)
  value_width = Shape <start = 2, end = 3> (value)
  key_size = Div (query_width, query_heads)
  value_size = Div (value_width, heads)
  query_shape = Concat <axis = 0> (batch, length, heads, group, key_size)
  query_split = Reshape (query, query_shape)
  query_steps = Transpose <perm = [1, 0, 2, 3, 4]> (query_split)
  queries = Cast <to = 1> (query_steps)
  key_shape = Concat <axis = 0> (batch, length, heads, key_size, one)
  key_split = Reshape (key, key_shape)
  key_steps = Transpose <perm = [1, 0, 2, 3, 4]> (key_split)
  keys = Cast <to = 1> (key_steps)
  value_shape = Concat <axis = 0> (batch, length, heads, one, value_size)
  value_split = Reshape (value, value_shape)
  value_steps = Transpose <perm = [1, 0, 2, 3, 4]> (value_split)
  values = Cast <to = 1> (value_steps)
  )";
  std::string scanned = "queries, keys, values";
  std::string parameters = "state_before, query_now, key_now, value_now";
  std::string step;
  // The runtime warns about constants that nothing uses.
  if (has_decay || has_beta) text += "last = Constant <value: tensor = int64[1] {-1}> () ";
  if (has_decay) {
    text += R"(
  decay_shape = Concat <axis = 0> (batch, length, heads, last, one)
  decay_split = Reshape (decay, decay_shape)
  decay_steps = Transpose <perm = [1, 0, 2, 3, 4]> (decay_split)
  decay_float = Cast <to = 1> (decay_steps)
  factors = Exp (decay_float)
  )";
    scanned += ", factors";
    parameters += ", factor_now";
    step += "state_kept = Mul (state_before, factor_now) ";
  } else {
    step += "state_kept = Identity (state_before) ";
  }
  if (has_beta) {
    text += R"(
  rate_shape = Concat <axis = 0> (batch, length, last, one, one)
  rate_split = Reshape (beta, rate_shape)
  rate_steps = Transpose <perm = [1, 0, 2, 3, 4]> (rate_split)
  rates = Cast <to = 1> (rate_steps)
  )";
    scanned += ", rates";
    parameters += ", rate_now";
    step += R"(
  key_row = Transpose <perm = [0, 1, 3, 2]> (key_now)
  recalled = MatMul (key_row, state_kept)
  missing = Sub (value_now, recalled)
  written = Mul (rate_now, missing)
  )";
  } else {
    step += "written = Identity (value_now) ";
  }
  text += node.HasInput(3) ? "state = Cast <to = 1> (past_state) "
                           : "state_shape = Concat <axis = 0> (batch, heads, key_size, value_size) "
                             "state = ConstantOfShape (state_shape) ";
  const std::size_t inputs =
      3 + static_cast<std::size_t>(has_decay) + static_cast<std::size_t>(has_beta);
  text += "state_after_all, read = Scan (state, " + scanned +
          ") <num_scan_inputs = " + std::to_string(inputs) + ", body: graph = step (" + parameters +
          ") => (float[_, _, _, _] state_after, float[_, _, _, _] read_now) {" + step + R"(
  change = MatMul (key_now, written)
  state_after = Add (state_kept, change)
  read_now = MatMul (query_now, state_after)
  }>
  )";
  if (scale == 0) {
    text += R"(
  key_size_float = Cast <to = 1> (key_size)
  root = Sqrt (key_size_float)
  scale = Reciprocal (root)
  )";
  } else {
    text += "scale = Constant <value: tensor = float[1] {" + AsText(scale) + "}> () ";
  }
  return text + R"(
  scaled = Mul (read, scale)
  typed = CastLike (scaled, query)
  rows = Transpose <perm = [1, 0, 2, 3, 4]> (typed)
  output_width = Mul (value_size, query_heads)
  output_shape = Concat <axis = 0> (batch, length, output_width)
  output = Reshape (rows, output_shape)
  present_state = CastLike (state_after_all, )" +
         (node.HasInput(3) ? "past_state" : "query") + ") }";
}

/// A depthwise Conv if the number of channels is known, which Conv needs; else sums over windows.
std::string WriteCausalConvWithState(const BodyNode& node) {
  const std::string_view activation = node.Text("activation", "none");
  const bool is_silu = activation == "silu" || activation == "swish";
  if (!is_silu && activation != "none") {
    throw NoBodyError("its attribute 'activation' is not one of 'silu', 'swish' and 'none'");
  }
  const std::int64_t channels = ChannelsOf(node);
  std::string text =
      "CausalConvWithState <activation> (input, weight, bias?, past_state?) => "
      "(output, present_state) {";
  text += R"(
  one = Constant <value: tensor = int64[1] {1}> ()
  two = Constant <value: tensor = int64[1] {2}> ()
  kernel = Shape <start = 2, end = 3> (weight)
  kept = Sub (kernel, one)
  )";
  text += node.HasInput(3) ? "state = Identity (past_state) " : R"(
  outer = Shape <start = 0, end = 2> (input)
  state_shape = Concat <axis = 0> (outer, kept)
  state_float = ConstantOfShape (state_shape)
  state = CastLike (state_float, input)
  )";
  text += R"(
  whole = Concat <axis = 2> (state, input)
  whole_length = Shape <start = 2, end = 3> (whole)
  first_kept = Sub (whole_length, kept)
  present_state = Slice (whole, first_kept, whole_length, two)
  )";
  if (channels > 0) {
    text += std::string("sums = Conv <group = ") + std::to_string(channels) + "> (whole, weight" +
            (node.HasInput(2) ? ", bias) " : ") ");
  } else {
    text += R"(
  zero = Constant <value: tensor = int64[1] {0}> ()
  start = Constant <value_int = 0> ()
  unit = Constant <value_int = 1> ()
  length = Shape <start = 2, end = 3> (input)
  length_scalar = Squeeze (length, zero)
  kernel_scalar = Squeeze (kernel, zero)
  positions = Range (start, length_scalar, unit)
  offsets = Range (start, kernel_scalar, unit)
  rows = Unsqueeze (positions, one)
  places = Add (rows, offsets)
  windows = Gather <axis = 2> (whole, places)
  last_axis = Constant <value: tensor = int64[1] {-1}> ()
  wide = Unsqueeze (weight, zero)
  products = Mul (windows, wide)
  plain_sums = ReduceSum <keepdims = 0> (products, last_axis)
  )";
    text += node.HasInput(2) ? "column = Unsqueeze (bias, one) sums = Add (plain_sums, column) "
                             : "sums = Identity (plain_sums) ";
  }
  text +=
      is_silu ? "gate = Sigmoid (sums) output = Mul (sums, gate) " : "output = Identity (sums) ";
  return text + "}";
}

}  // namespace opgraft::model
