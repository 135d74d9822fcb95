// Two tables: what onnx.defs tells by itself, and what was found by reading where it does not.
#include "model/opset_changes.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

enum class Kind {
  kBrought,  ///< was not there before
  kWidened,  ///< takes more types, and no word on it, no input, output or attribute has changed
  kRevised,  ///< something else; kReviews says whether and when the older one will do
};

struct Change {
  std::int64_t opset;
  Kind kind;
  std::string_view operators;  // each between two spaces
};

constexpr Change kChanges[] = {
#include "model/opset_changes.inc"  // NOLINT(bugprone-suspicious-include)
};

constexpr std::int64_t kFirst = kChanges[0].opset;
constexpr std::int64_t kLast = std::end(kChanges)[-1].opset;

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

/// A revised operator, and when a node of it means exactly the same in the version before. A node
/// whose types the version before does not take is none of our business: the runtime refuses it.
struct Review {
  std::int64_t opset;
  std::string_view op_type;
  std::string_view absent = "";  ///< attributes that the node must not have, each between spaces
  std::string_view zero = "";    ///< an attribute that must be absent or the integer 0
  std::size_t inputs = kAny;     ///< at most so many
  std::size_t outputs = kAny;
};

// Each was judged by the documentation of both versions, in onnx 1.23. Those without a row here are
// not the same, whatever the node. BitShift 28 defines shifts by the width of the type and more,
// which up to then were whatever the machine does: uint32 255 >> 32 is 255 in ONNX Runtime 1.23,
// and would have to be 0.
constexpr Review kReviews[] = {
    // "Windows that would start in the right padded region are ignored": only ceil_mode makes such.
    {.opset = 22, .op_type = "AveragePool", .zero = "ceil_mode"},
    {.opset = 22, .op_type = "MaxPool", .zero = "ceil_mode"},
    // A contradiction in the text was removed: ratio is 0.5 where it is absent, as it was.
    {.opset = 22, .op_type = "Dropout"},
    // A clause was removed that spoke of an absent input, which there cannot be.
    {.opset = 22, .op_type = "EyeLike"},
    // A typing error.
    {.opset = 22, .op_type = "LSTM"},
    // output_dtype, new, makes y another type than x_scale.
    {.opset = 23, .op_type = "DequantizeLinear", .absent = " output_dtype "},
    // precision is new; x and y_scale may be of different types, which the older version's T1,
    // common to both, refuses; of one type, the division is of that type in both versions.
    {.opset = 23, .op_type = "QuantizeLinear", .absent = " precision "},
    // "List of integers" became "1D tensor of integers"; it was a tensor before.
    {.opset = 23, .op_type = "Squeeze"},
    {.opset = 23, .op_type = "Unsqueeze"},
    // A mask that is too short is padded from 24 on; nonpad_kv_seqlen is new; what a causal mask
    // does beside past_key, and what qk_matmul_output holds, was put in other words several times.
    // So only Q, K, V and Y are certain.
    {.opset = 24, .op_type = "Attention", .inputs = 3, .outputs = 1},
    // round_mode is for float8e8m0 alone, which is new. The table of infinities was corrected for
    // the fnuz kinds of float8, to what every ONNX Runtime from 1.19 on computes.
    {.opset = 24, .op_type = "Cast", .absent = " round_mode "},
    {.opset = 24, .op_type = "CastLike", .absent = " round_mode "},
    // A blank.
    {.opset = 24, .op_type = "QuantizeLinear"},
    // The windows are new, no bound by default. Some more words on past_key and softmax_precision.
    {.opset = 25,
     .op_type = "Attention",
     .absent = " left_window_size right_window_size softmax_precision ",
     .inputs = 3,
     .outputs = 1},
    // The ranges of the types that are new.
    {.opset = 25, .op_type = "QuantizeLinear"},
    // The range of perm's values is stated.
    {.opset = 25, .op_type = "Transpose"},
    // stash_type concerns float16 and bfloat16 alone, which are new.
    {.opset = 27, .op_type = "Range", .absent = " stash_type "},
    // fmod = 0 now takes floats too, which the older version's kernels refuse. fmod = 1 now takes
    // integers too, which they take, but compute in double: wrong beyond 2^53.
    {.opset = 28, .op_type = "Mod", .zero = "fmod"},
    // saturate has no meaning for the types that are new.
    {.opset = 28, .op_type = "QuantizeLinear"},
    // They no longer take integers: the older ones take all that they do, and mean the same.
    {.opset = 28, .op_type = "ReduceLogSum"},
    {.opset = 28, .op_type = "ReduceLogSumExp"},
    // Up to then there was one order, that of the mode DCR, which is the default.
    {.opset = 28, .op_type = "SpaceToDepth", .absent = " mode "},
};

bool Holds(std::string_view list, std::string_view name) {
  const std::string word = " " + std::string(name) + " ";
  return list.find(word) != list.npos;
}

/// An attribute's integer; not 0 where it is something else, such as a reference in a function.
std::int64_t IntegerOf(std::string_view attribute) {
  std::int64_t value = 0;
  for (FieldReader reader(attribute); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeInt) value = reader.field().Integer();
    if (reader.field().tag() == tag::kAttributeReference) return -1;
  }
  return value;
}

/// What `review` does not cover about the node, "" where there is nothing.
std::string Obstacle(std::string_view node, const Review& review) {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  std::size_t last_input = 0;
  std::size_t last_output = 0;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kNodeInput:
        ++inputs;
        if (!field.Bytes().empty()) last_input = inputs;
        break;
      case tag::kNodeOutput:
        ++outputs;
        if (!field.Bytes().empty()) last_output = outputs;
        break;
      case tag::kNodeAttribute: {
        const std::string_view name = ReadText(field.Bytes(), tag::kAttributeName);
        const bool is_set = !name.empty() && name == review.zero && IntegerOf(field.Bytes()) != 0;
        if (is_set || Holds(review.absent, name)) return " with '" + std::string(name) + "'";
        break;
      }
    }
  }
  if (last_input > review.inputs) {
    return " with more than " + std::to_string(review.inputs) + " inputs";
  }
  if (last_output > review.outputs) {
    return " with more than " + std::to_string(review.outputs) + " output";
  }
  return "";
}

std::string Difference(std::string_view node, std::string_view op_type, const Change& change) {
  const std::string since = " (since opset " + std::to_string(change.opset) + ")";
  if (change.kind == Kind::kWidened) return "";
  const auto* const review = std::find_if(
      std::begin(kReviews), std::end(kReviews),
      [&](const Review& row) { return row.opset == change.opset && row.op_type == op_type; });
  if (review == std::end(kReviews)) return std::string(op_type) + since;
  const std::string obstacle = Obstacle(node, *review);
  return obstacle.empty() ? "" : std::string(op_type) + obstacle + since;
}

}  // namespace

std::int64_t NewestKnownOpset() { return kLast; }

std::string Difference(std::string_view node, std::string_view op_type, std::int64_t older,
                       std::int64_t newer) {
  if (older >= newer) return "";
  if (older < kFirst - 1 || newer > kLast) return std::string(op_type);
  for (const Change& change : kChanges) {
    if (change.opset <= older || change.opset > newer || !Holds(change.operators, op_type))
      continue;
    if (std::string found = Difference(node, op_type, change); !found.empty()) return found;
  }
  return "";
}

}  // namespace opgraft::model
