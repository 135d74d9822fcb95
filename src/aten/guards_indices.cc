// Checks indices, lengths and offsets, which kernels trust, and integers that have no quotient.
#include <algorithm>
#include <cstring>
#include <limits>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr int kUint64 = 13;

/// Returns the bits of an integer type; 0 for other types. Signed and unsigned types are not
/// distinguished: with a signed operand, torch makes both signed.
int BitsOf(int element_type) {
  switch (element_type) {
    case 2:
    case 3: return 8;
    case 4:
    case 5: return 16;
    case 6:
    case 12: return 32;
    case kInt64:
    case kUint64: return 64;
    default: return 0;
  }
}

/// One of two operands, which torch converts to a common type.
struct Operand {
  int element_type = 0;  ///< 0 for a number in the node's text
  bool has_dimensions = false;
  std::optional<std::int64_t> number;  ///< if it is a Scalar
  TensorArgument tensor;               ///< otherwise

  int bits() const { return number ? 64 : BitsOf(element_type); }
};

/// Returns nullopt for an argument that is neither a tensor of integers nor an integer.
std::optional<Operand> FindOperand(const NamedArguments& arguments, std::string_view name) {
  Operand operand;
  if (const std::optional<TensorArgument> tensor = arguments.FindTensor(name)) {
    operand.tensor = *tensor;
    operand.element_type = tensor->element_type;
    operand.has_dimensions = tensor->rank() > 0;
    return operand.bits() != 0 || operand.element_type == kBool ? std::optional(operand)
                                                                : std::nullopt;
  }
  operand.number = arguments.FindInteger(name);
  return operand.number ? std::optional(operand) : std::nullopt;
}

/// Returns the bits of the integer type that both are converted to. A tensor with dimensions takes
/// precedence over one without; otherwise the wider type is taken.
int CommonBits(const Operand& one, const Operand& other) {
  if (one.bits() == 0 || other.bits() == 0) return std::max(one.bits(), other.bits());
  if (one.has_dimensions != other.has_dimensions) {
    return one.has_dimensions ? one.bits() : other.bits();
  }
  return std::max(one.bits(), other.bits());
}

std::int64_t Truncate(std::int64_t number, int bits) {
  return bits > 32 ? number : static_cast<std::int32_t>(static_cast<std::uint64_t>(number));
}

/// Returns whether a number is among those of the operand, truncated to these bits.
bool Holds(const Operand& operand, std::int64_t number, int bits) {
  if (operand.number) return Truncate(*operand.number, bits) == number;
  TensorArgument tensor = operand.tensor;
  if (tensor.element_type == kUint64) tensor.element_type = kInt64;  // the same bits
  const std::size_t count = Count(tensor.shape);
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<std::int64_t> one = ReadInteger(tensor, i);
    if (one && Truncate(*one, bits) == number) return true;
  }
  return false;
}

std::int64_t SmallestOf(int bits) {
  return bits > 32 ? std::numeric_limits<std::int64_t>::min()
                   : std::numeric_limits<std::int32_t>::min();
}

}  // namespace

std::string CheckLabels(const NamedArguments& arguments) {
  const std::optional<TensorArgument> scores = arguments.FindTensor("log_probs");
  const std::optional<TensorArgument> targets = arguments.FindTensor("targets");
  const std::optional<std::int64_t> blank = arguments.FindInteger("blank");
  if (!scores || !targets) return "";
  const std::int64_t classes = scores->SizeFromEnd(1);
  if (!LieWithin(*targets, 0, classes - 1) || (blank && (*blank < 0 || *blank >= classes))) {
    return "expected targets and blank from 0 to " + std::to_string(classes - 1) +
           ", the classes of log_probs' last dimension";
  }
  return "";
}

/// The smallest integer has no negation: with it, the search for a divisor ends in an undefined
/// quotient.
std::string CheckNotSmallest(const NamedArguments& arguments) {
  const std::optional<Operand> one = FindOperand(arguments, "self");
  const std::optional<Operand> other = FindOperand(arguments, "other");
  if (!one || !other) return "";
  const int bits = CommonBits(*one, *other);
  if (!Holds(*one, SmallestOf(bits), bits) && !Holds(*other, SmallestOf(bits), bits)) return "";
  return "expected integers that can be negated, got the smallest of the type, " +
         std::to_string(SmallestOf(bits));
}

/// The smallest integer divided by -1 overflows, for which processors end the program.
std::string CheckQuotient(const NamedArguments& arguments) {
  const std::optional<Operand> dividend = FindOperand(arguments, "self");
  const std::optional<Operand> divisor = FindOperand(arguments, "other");
  if (!dividend || !divisor || !arguments.Has("rounding_mode")) return "";
  const int bits = CommonBits(*dividend, *divisor);
  if (bits < 32 || !Holds(*divisor, -1, bits) || !Holds(*dividend, SmallestOf(bits), bits)) {
    return "";
  }
  return "expected integers whose quotients do not overflow, got the smallest of the type, " +
         std::to_string(SmallestOf(bits)) + ", and -1 among the divisors";
}

std::string CheckRepeats(const NamedArguments& arguments) {
  const std::optional<TensorArgument> repeats = arguments.FindTensor("repeats");
  const std::optional<std::int64_t> number = arguments.FindInteger("repeats");
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::size_t count = repeats ? Count(repeats->shape) : 1;
  std::optional<std::int64_t> sum = 0;
  for (std::size_t i = 0; sum && i < count; ++i) {
    const std::optional<std::int64_t> one = repeats ? ReadInteger(*repeats, i) : number;
    if (!one) return "";
    if (*one < 0) return "expected repeats of 0 or more, got " + std::to_string(*one);
    if (*one > std::numeric_limits<std::int64_t>::max() - *sum) {
      sum = std::nullopt;
    } else {
      *sum += *one;
    }
  }
  // A single number applies to each element, and each element may be a row of many.
  if (sum && self) sum = Product(*sum, static_cast<std::int64_t>(Count(self->shape)));
  if (sum && *sum <= std::numeric_limits<std::int64_t>::max() / 16) return "";
  return "expected repeats whose sum does not overflow, got numbers that are too large";
}

/// Segments must lie within the data, whatever `unsafe` says.
std::string CheckSegments(const NamedArguments& arguments) {
  const std::optional<TensorArgument> data = arguments.FindTensor("data");
  if (!data) return "";
  if (arguments.Has("indices")) return "expected lengths or offsets, got indices";
  const std::int64_t axis = arguments.FindInteger("axis").value_or(0);
  const auto rank = static_cast<std::int64_t>(data->shape.size());
  if (axis < 0 || axis >= rank) return "expected an axis of the data";
  const std::int64_t size = data->shape[static_cast<std::size_t>(axis)];
  for (const char* const name : {"lengths", "offsets"}) {
    const std::optional<TensorArgument> tensor = arguments.FindTensor(name);
    if (!tensor) continue;
    const bool is_row = static_cast<std::int64_t>(tensor->shape.size()) == axis + 1;
    bool is_good =
        is_row && LieWithin(*tensor, 0, size) &&
        std::equal(tensor->shape.begin(), tensor->shape.end() - 1, data->shape.begin()) &&
        (tensor->element_type == 7 || tensor->element_type == 6);
    const std::int64_t row = is_row ? tensor->shape.back() : 0;
    const bool is_offsets = std::strcmp(name, "offsets") == 0;
    std::int64_t sum = 0;
    for (std::size_t i = 0; is_good && i < Count(tensor->shape); ++i) {
      const std::int64_t value = ReadInteger(*tensor, i).value_or(0);
      if (static_cast<std::int64_t>(i) % row == 0) sum = 0;
      is_good = is_offsets ? value >= sum : sum + value <= size;
      sum = is_offsets ? value : sum + value;
    }
    if (!is_good) {
      return "expected " + std::string(name) + " of segments within the data's dimension " +
             std::to_string(axis) + ", which has " + std::to_string(size) + " elements";
    }
  }
  return "";
}

}  // namespace opgraft::aten
