// Two tables: changes that follow from onnx.defs, and changes that were judged by reading it.
#include "model/opset_changes.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

enum class Kind {
  kBrought,  ///< is new
  kWidened,  ///< takes more types; its text, inputs, outputs and attributes are unchanged
  kRevised,  ///< otherwise changed; kReviews says when the older version is equivalent
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

/// A revised operator, and the condition under which a node means exactly the same in the previous
/// version. Types that the previous version does not take need no check: the runtime refuses them.
struct Review {
  std::int64_t opset;
  std::string_view op_type;
  std::string_view absent = "";  ///< attributes that must be absent, each between spaces
  std::string_view zero = "";    ///< an attribute that must be absent or the integer 0
  std::size_t inputs = kAny;     ///< the largest number
  std::size_t outputs = kAny;
};

// Each was judged by the documentation of both versions in onnx 1.23. A revised operator without a
// row is never equivalent. BitShift 28 is an example: it defines shifts by the width of the type or
// more, which until then depended on the machine. uint32 255 >> 32 is 255 in ONNX Runtime 1.23, but
// must be 0.
constexpr Review kReviews[] = {
    // "Windows that would start in the right padded region are ignored": only ceil_mode makes such
    // windows.
    {.opset = 22, .op_type = "AveragePool", .zero = "ceil_mode"},
    {.opset = 22, .op_type = "MaxPool", .zero = "ceil_mode"},
    // A contradiction in the text was removed: ratio is 0.5 if it is absent, as before.
    {.opset = 22, .op_type = "Dropout"},
    // A clause about an absent input was removed; the input cannot be absent.
    {.opset = 22, .op_type = "EyeLike"},
    // A typing error was corrected.
    {.opset = 22, .op_type = "LSTM"},
    // output_dtype is new, and lets y have another type than x_scale.
    {.opset = 23, .op_type = "DequantizeLinear", .absent = " output_dtype "},
    // precision is new. x and y_scale may now have different types, which the older version refuses
    // because both are T1. If they have one type, both versions divide in that type.
    {.opset = 23, .op_type = "QuantizeLinear", .absent = " precision "},
    // "List of integers" became "1D tensor of integers"; it was a tensor before.
    {.opset = 23, .op_type = "Squeeze"},
    {.opset = 23, .op_type = "Unsqueeze"},
    // From 24 on, a mask that is too short is padded; nonpad_kv_seqlen is new. The effect of a
    // causal
    // mask together with past_key, and the contents of qk_matmul_output, were reworded several
    // times.
    // So only Q, K, V and Y are certain.
    {.opset = 24, .op_type = "Attention", .inputs = 3, .outputs = 1},
    // round_mode is only for float8e8m0, which is new. The table of infinities was corrected for
    // the
    // fnuz kinds of float8, to what every ONNX Runtime from 1.19 on computes.
    {.opset = 24, .op_type = "Cast", .absent = " round_mode "},
    {.opset = 24, .op_type = "CastLike", .absent = " round_mode "},
    // Only white space changed.
    {.opset = 24, .op_type = "QuantizeLinear"},
    // The windows are new, unlimited by default. The text about past_key and softmax_precision was
    // extended.
    {.opset = 25,
     .op_type = "Attention",
     .absent = " left_window_size right_window_size softmax_precision ",
     .inputs = 3,
     .outputs = 1},
    // The ranges of the new types were added.
    {.opset = 25, .op_type = "QuantizeLinear"},
    // The range of perm's values is now stated.
    {.opset = 25, .op_type = "Transpose"},
    // stash_type is only for float16 and bfloat16, which are new.
    {.opset = 27, .op_type = "Range", .absent = " stash_type "},
    // fmod = 0 now takes floats too, which the older version's kernels refuse. fmod = 1 now takes
    // integers too, which the older kernels take but compute in double: wrong beyond 2^53.
    {.opset = 28, .op_type = "Mod", .zero = "fmod"},
    // saturate has no meaning for the new types.
    {.opset = 28, .op_type = "QuantizeLinear"},
    // They no longer take integers. The older versions take all other types, with the same meaning.
    {.opset = 28, .op_type = "ReduceLogSum"},
    {.opset = 28, .op_type = "ReduceLogSumExp"},
    // The older version has only one order, that of the mode DCR, which is the default.
    {.opset = 28, .op_type = "SpaceToDepth", .absent = " mode "},
};

bool Holds(std::string_view list, std::string_view name) {
  const std::string word = " " + std::string(name) + " ";
  return list.find(word) != list.npos;
}

/// Returns an attribute's integer, or -1 for a reference to an attribute of a function.
std::int64_t IntegerOf(std::string_view attribute) {
  std::int64_t value = 0;
  for (FieldReader reader(attribute); reader.Next();) {
    if (reader.field().tag() == tag::kAttributeInt) value = reader.field().Integer();
    if (reader.field().tag() == tag::kAttributeReference) return -1;
  }
  return value;
}

/// Returns what prevents `review` from applying to the node; "" if nothing does.
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
