// The bodies of operators on single elements, and of norms over axes.
#include "model/body_writers.h"

namespace opgraft::model {
namespace {

constexpr std::int64_t kInt8 = 3;
constexpr std::int64_t kInt16 = 5;
constexpr std::int64_t kInt32 = 6;
constexpr std::int64_t kInt64 = 7;
constexpr std::int64_t kUint8 = 2;
constexpr std::int64_t kUint16 = 4;
constexpr std::int64_t kUint32 = 12;
constexpr std::int64_t kUint64 = 13;

/// The width of an integer type in bits; 0 for any other type.
int WidthOf(std::int64_t type) {
  switch (type) {
    case kInt8:
    case kUint8: return 8;
    case kInt16:
    case kUint16: return 16;
    case kInt32:
    case kUint32: return 32;
    case kInt64:
    case kUint64: return 64;
    default: return 0;
  }
}

}  // namespace

/// X / sqrt(mean(X^2) + epsilon) * scale, in the type of stash_type.
std::string WriteRmsNormalization(const BodyNode& node) {
  const std::int64_t stash = node.Integer("stash_type", 1);
  if (stash != 1 && stash != 10 && stash != 11 && stash != 16) {
    throw NoBodyError("its attribute 'stash_type' is " + std::to_string(stash) +
                      ", expected 1, 10, 11 or 16");
  }
  const std::int64_t axis = node.Integer("axis", -1);
  const std::string start = axis < 0
                                ? "distance = Constant <value_int = " + std::to_string(axis) +
                                      "> () first = Add (rank, distance) "
                                : "first = Constant <value_int = " + std::to_string(axis) + "> () ";
  return "RMSNormalization <axis, epsilon, stash_type> (X, scale) => (Y) { "
         "epsilon_float = Constant <value: tensor = float {" +
         AsText(node.Real("epsilon", 1e-5F)) +
         "}> () values = Cast <to = " + std::to_string(stash) + "> (X) " + R"(
  epsilon = CastLike (epsilon_float, values)
  shape = Shape (X)
  rank = Size (shape)
  )" + start +
         R"(
  unit = Constant <value_int = 1> ()
  axes = Range (first, rank, unit)
  squares = Mul (values, values)
  mean = ReduceMean (squares, axes)
  above_zero = Add (mean, epsilon)
  root = Sqrt (above_zero)
  normalized = Div (values, root)
  typed = CastLike (normalized, scale)
  Y = Mul (typed, scale)
  })";
}

/// Opset 28 gives shifts by the width or more a result, which older shifts leave to the machine:
/// zeros, or copies of the sign. A negative shift is like one by the width.
std::string WriteBitShift(const BodyNode& node) {
  const std::string_view direction = node.Text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    throw NoBodyError("its attribute 'direction' is neither 'LEFT' nor 'RIGHT'");
  }
  const std::int64_t type = node.NeededType(0);
  const int width = WidthOf(type);
  if (width == 0) throw NoBodyError("its input X is not of integers");
  const bool is_signed = type == kInt8 || type == kInt16 || type == kInt32 || type == kInt64;
  const std::string to = std::to_string(type);
  const std::string shift = " = BitShift <direction = \"" + std::string(direction) + "\"> ";
  // Runtimes shift uint64, and compare and choose int64. Casts of integers keep the lower bits.
  std::string text =
      "BitShift <direction> (X, Y) => (Z) { "
      "width = Constant <value: tensor = int64 {" +
      std::to_string(width) + R"(}> ()
  nothing = Constant <value: tensor = int64 {0}> ()
  )";
  text += R"(
  wide = Cast <to = 7> (X)
  asked = Cast <to = 7> (Y)
  is_not_long = Less (asked, width)
  is_not_negative = GreaterOrEqual (asked, nothing)
  is_inside = And (is_not_long, is_not_negative)
  inside = Where (is_inside, asked, nothing)
  distance = Cast <to = 13> (inside)
  )";
  if (direction == "LEFT" || !is_signed) {
    return text + R"(
  bits = Cast <to = 13> (wide)
  shifted_bits)" +
           shift + R"((bits, distance)
  shifted = Cast <to = 7> (shifted_bits)
  kept = Where (is_inside, shifted, nothing)
  Z = Cast <to = )" +
           to + "> (kept) }";
  }
  // A negative number shifts right as the complement of its shifted complement, so that the sign
  // is copied.
  return text + R"(
  minus_one = Constant <value: tensor = int64 {-1}> ()
  is_below_zero = Less (wide, nothing)
  sign = Where (is_below_zero, minus_one, nothing)
  positive = BitwiseXor (wide, sign)
  bits = Cast <to = 13> (positive)
  shifted_bits)" +
         shift + R"((bits, distance)
  shifted = Cast <to = 7> (shifted_bits)
  signed_result = BitwiseXor (shifted, sign)
  kept = Where (is_inside, signed_result, sign)
  Z = Cast <to = )" +
         to + "> (kept) }";
}

/// Of integers with fmod = 1, older versions compute in double. This divides int64, by nothing that
/// would end the process. Floats, and fmod = 0, mean the same in older versions.
std::string WriteMod(const BodyNode& node) {
  const std::int64_t fmod = node.Integer("fmod", 0);
  if (fmod != 0 && fmod != 1) {
    throw NoBodyError("its attribute 'fmod' is " + std::to_string(fmod) + ", expected 0 or 1");
  }
  const std::int64_t type = node.NeededType(0);
  const bool is_real = type == 1 || type == 10 || type == 11;
  const std::string head = "Mod <fmod> (A, B) => (C) { ";
  if (is_real || fmod == 0) return head + "C = Mod <fmod = " + std::to_string(fmod) + "> (A, B) }";
  if (WidthOf(type) == 0 || type == kUint64) {
    throw NoBodyError(
        "its inputs are of a type whose remainder has no body, expected float, "
        "float16, double or integers other than uint64");
  }
  return head + R"(
  zero = Constant <value: tensor = int64 {0}> ()
  one = Constant <value: tensor = int64 {1}> ()
  minus_one = Constant <value: tensor = int64 {-1}> ()
  number = Cast <to = 7> (A)
  asked = Cast <to = 7> (B)
  is_zero = Equal (asked, zero)
  is_minus_one = Equal (asked, minus_one)
  is_special = Or (is_zero, is_minus_one)
  divisor = Where (is_special, one, asked)
  quotient = Div (number, divisor)
  product = Mul (quotient, divisor)
  remainder = Sub (number, product)
  C = Cast <to = )" +
         std::to_string(type) + "> (remainder) }";
}

}  // namespace opgraft::model
