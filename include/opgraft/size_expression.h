// Unknown sizes as expressions of names. All arithmetic with them, and their reading and writing,
// is here. This header is public because packs and test programs need it without the core's
// sources; Python has it as opgraft._pyop.SizeExpression and evaluate_size.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft::internal {

/// Computes `a` + - * / % `b`. Quotients are rounded down, as in Python, and remainders have the
/// sign of `b`. Returns nullopt for a division by 0 and for a result that does not fit into 64
/// bits.
inline std::optional<std::int64_t> CalculateSize(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool is_invalid = b == 0 || (b == -1 && a == INT64_MIN);
  if (sign == '*') {
    is_invalid = __builtin_mul_overflow(a, b, &result);
  } else if (sign == '+') {
    is_invalid = __builtin_add_overflow(a, b, &result);
  } else if (sign == '-') {
    is_invalid = __builtin_sub_overflow(a, b, &result);
  } else if (!is_invalid) {
    const bool is_rounded_up = a % b != 0 && (a < 0) != (b < 0);
    if (sign == '/') result = a / b - (is_rounded_up ? 1 : 0);
    if (sign == '%') result = a % b + (is_rounded_up ? b : 0);
  }
  return is_invalid ? std::nullopt : std::optional(result);
}

/// A sum of products of names, quotients and remainders, such as `2*n + m//3`. Equal expressions
/// have the same text, and reading the text gives an equal expression. Any text may be a name, so
/// that the text of an expression must not be parsed if its names come from a model.
class SizeExpression {
 public:
  SizeExpression(std::int64_t number = 0) {  // NOLINT(google-explicit-constructor)
    if (number != 0) terms_[{}] = number;
  }
  static SizeExpression Named(std::string name) {
    SizeExpression made;
    made.terms_[{Factor{std::move(name)}}] = 1;
    return made;
  }

  /// Returns nullopt if the expression has names.
  std::optional<std::int64_t> number() const {
    if (terms_.empty()) return 0;
    const auto& [factors, number] = *terms_.begin();
    return terms_.size() == 1 && factors.empty() ? std::optional(number) : std::nullopt;
  }
  /// Whether the expression is a single name.
  bool IsName() const { return IsOneFactor() && terms_.begin()->first[0].sign == 0; }
  /// Returns the names in the expression, possibly with repetitions.
  std::vector<std::string> Names() const {
    std::vector<std::string> all;
    AddNames(&all);
    return all;
  }

  bool operator==(const SizeExpression& other) const { return terms_ == other.terms_; }

  // These throw std::overflow_error if a number does not fit into 64 bits.
  friend SizeExpression operator+(const SizeExpression& a, const SizeExpression& b) {
    SizeExpression sum = a;
    for (const auto& [factors, number] : b.terms_) sum.Add(factors, number);
    return sum;
  }
  friend SizeExpression operator-(const SizeExpression& a, const SizeExpression& b) {
    return a + b * -1;
  }
  friend SizeExpression operator*(const SizeExpression& a, const SizeExpression& b) {
    SizeExpression product;
    for (const auto& [left, left_number] : a.terms_) {
      for (const auto& [right, right_number] : b.terms_) {
        std::vector<Factor> factors = left;
        factors.insert(factors.end(), right.begin(), right.end());
        std::sort(factors.begin(), factors.end());
        const std::optional<std::int64_t> number = CalculateSize('*', left_number, right_number);
        if (!number) throw std::overflow_error(kTooLarge);
        product.Add(factors, *number);
      }
    }
    return product;
  }
  /// Rounds down.
  friend SizeExpression operator/(const SizeExpression& a, const SizeExpression& b) {
    if (!a.IsMultipleOf(b)) return Divided(a, '/', b);
    if (*b.number() == -1) return a * -1;
    SizeExpression quotient = a;
    for (auto& [factors, number] : quotient.terms_) number /= *b.number();
    return quotient;
  }
  friend SizeExpression operator%(const SizeExpression& a, const SizeExpression& b) {
    return a.IsMultipleOf(b) ? SizeExpression() : Divided(a, '%', b);
  }

  std::string Text() const {
    if (IsName()) return terms_.begin()->first[0].text;
    std::string text;
    for (const auto& [factors, number] : terms_) {
      if (!factors.empty()) AddText(factors, number, &text);
    }
    const auto constant = terms_.find({});
    if (constant != terms_.end()) AddText({}, constant->second, &text);
    return text.empty() ? "0" : text;
  }

  /// Evaluates it with the `arithmetic` of EvaluateSize; nullopt if a name is not known.
  template <class Value, class Arithmetic>
  std::optional<Value> Evaluate(const Arithmetic& arithmetic) const {
    std::optional<Value> sum = arithmetic.Number(0);
    for (const auto& [factors, number] : terms_) {
      std::optional<Value> product = arithmetic.Number(number);
      for (const Factor& factor : factors) {
        const std::optional<Value> value = factor.template Evaluate<Value>(arithmetic);
        product = product && value ? arithmetic.Calculate('*', *product, *value) : std::nullopt;
      }
      sum = sum && product ? arithmetic.Calculate('+', *sum, *product) : std::nullopt;
    }
    return sum;
  }

 private:
  static constexpr const char* kTooLarge = "a size is too large";
  /// The longest text of a quotient. Each may contain the previous one twice, so that without a
  /// limit the texts would exhaust memory.
  static constexpr std::size_t kLongest = 1000;

  /// A name, or a quotient or remainder.
  struct Factor {
    std::string text;  ///< on its own, without parentheses
    char sign = 0;     ///< 0 for a name
    std::shared_ptr<const SizeExpression> dividend = nullptr;
    std::shared_ptr<const SizeExpression> divisor = nullptr;

    // Comparing texts is not enough, because a name may be any text.
    bool operator==(const Factor& other) const {
      return text == other.text && sign == other.sign &&
             (sign == 0 || (*dividend == *other.dividend && *divisor == *other.divisor));
    }
    bool operator<(const Factor& other) const {
      if (text != other.text || sign != other.sign || sign == 0) {
        return std::tie(text, sign) < std::tie(other.text, other.sign);
      }
      return std::tie(dividend->terms_, divisor->terms_) <
             std::tie(other.dividend->terms_, other.divisor->terms_);
    }
    /// Whether the text is parsed as this name in any context.
    bool IsWord() const {
      return sign == 0 && text.find_first_of("+-*/%() ") == std::string::npos &&
             text.find_first_of("0123456789") != 0;
    }
    template <class Value, class Arithmetic>
    std::optional<Value> Evaluate(const Arithmetic& arithmetic) const {
      if (sign == 0) return arithmetic.Find(text);
      const std::optional<Value> a = dividend->template Evaluate<Value>(arithmetic);
      const std::optional<Value> b = divisor->template Evaluate<Value>(arithmetic);
      return a && b ? arithmetic.Calculate(sign, *a, *b) : std::nullopt;
    }
  };

  bool IsOneFactor() const {
    return terms_.size() == 1 && terms_.begin()->first.size() == 1 && terms_.begin()->second == 1;
  }
  void AddNames(std::vector<std::string>* all) const {
    for (const auto& [factors, number] : terms_) {
      for (const Factor& factor : factors) {
        if (factor.sign == 0) {
          all->push_back(factor.text);
        } else {
          factor.dividend->AddNames(all);
          factor.divisor->AddNames(all);
        }
      }
    }
  }
  /// Returns the quotient or remainder if `a` is not a multiple of `b`.
  static SizeExpression Divided(const SizeExpression& a, char sign, const SizeExpression& b) {
    if (a.number() && b.number()) {
      const std::optional<std::int64_t> result = CalculateSize(sign, *a.number(), *b.number());
      if (result) return *result;
    }
    std::string text = a.OperandText() + (sign == '/' ? "//" : "%") + b.OperandText();
    if (text.size() > kLongest) throw std::overflow_error(kTooLarge);
    SizeExpression made;
    made.terms_[{Factor{std::move(text), sign, std::make_shared<const SizeExpression>(a),
                        std::make_shared<const SizeExpression>(b)}}] = 1;
    return made;
  }
  /// Returns the text as an operand: sums, products and quotients are in parentheses.
  std::string OperandText() const {
    const bool is_atom = number() ? *number() >= 0 : IsName() && terms_.begin()->first[0].IsWord();
    return is_atom ? Text() : "(" + Text() + ")";
  }
  void Add(const std::vector<Factor>& factors, std::int64_t number) {
    std::int64_t& sum = terms_[factors];
    if (__builtin_add_overflow(sum, number, &sum)) throw std::overflow_error(kTooLarge);
    if (sum == 0) terms_.erase(factors);
  }
  bool IsMultipleOf(const SizeExpression& other) const {
    const std::optional<std::int64_t> number = other.number();
    return number.value_or(0) != 0 &&
           std::all_of(terms_.begin(), terms_.end(), [&](const auto& term) {
             return *number == -1 || term.second % *number == 0;
           });
  }
  static void AddText(const std::vector<Factor>& factors, std::int64_t number, std::string* text) {
    const bool is_first = text->empty();
    *text += number < 0 ? (is_first ? "-" : " - ") : (is_first ? "" : " + ");
    std::string digits = std::to_string(number);
    if (number < 0) digits.erase(0, 1);
    std::string sign;
    if (digits != "1" || factors.empty()) {
      *text += digits;
      sign = "*";
    }
    // "2*n//3" would be parsed as "(2*n)//3", and Python parses "-n//3" as "(-n)//3". A name that
    // is not a word needs parentheses unless it is alone.
    for (const Factor& factor : factors) {
      const bool is_alone = factors.size() == 1 && number == 1 && factor.sign != 0;
      *text += sign + (is_alone || factor.IsWord() ? factor.text : "(" + factor.text + ")");
      sign = "*";
    }
  }

  /// Maps sorted factors to their coefficient, which is never 0.
  std::map<std::vector<Factor>, std::int64_t> terms_;
};

/// Parses a text of names, numbers, `+ - * / // %` and parentheses, and computes its value.
template <class Value, class Arithmetic>
class SizeReader {
 public:
  SizeReader(std::string_view text, const Arithmetic& arithmetic)
      : rest_(text), arithmetic_(arithmetic) {}

  std::optional<Value> Read() {
    std::optional<Value> value = Sum();
    Peek();
    return rest_.empty() ? value : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 64;

  char Peek() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  char Take() {
    const char taken = rest_.front();
    rest_.remove_prefix(1);
    return taken;
  }
  std::optional<Value> Joined(char sign, const std::optional<Value>& a,
                              const std::optional<Value>& b) {
    return a && b ? arithmetic_.Calculate(sign, *a, *b) : std::nullopt;
  }
  std::optional<Value> Sum() {
    std::optional<Value> value = Peek() == '-' ? arithmetic_.Number(0) : Product();
    while (value && (Peek() == '+' || Peek() == '-')) {
      const char sign = Take();
      value = Joined(sign, value, Product());
    }
    return value;
  }
  std::optional<Value> Product() {
    std::optional<Value> value = Factor();
    while (value && (Peek() == '*' || Peek() == '/' || Peek() == '%')) {
      const char sign = Take();
      if (sign == '/' && Peek() == '/') Take();
      value = Joined(sign, value, Factor());
    }
    return value;
  }
  std::optional<Value> Factor() {
    if (Peek() == '(' && depth_ < kDeepest) {
      Take();
      ++depth_;
      std::optional<Value> value = Sum();
      --depth_;
      return Peek() == ')' && Take() == ')' ? value : std::nullopt;
    }
    const std::size_t end = std::min(rest_.find_first_of("+-*/%() "), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && stop == word.data() + word.size()) {
      return arithmetic_.Number(number);
    }
    return word.empty() ? std::nullopt : arithmetic_.Find(word);
  }

  std::string_view rest_;
  const Arithmetic& arithmetic_;
  int depth_ = 0;
};

/// Computes the value of a text such as "2*n + 1", or of a name, which may be any text.
/// `arithmetic` has `Find(name)`, `Number(number)` and `Calculate(sign, a, b)`, which return an
/// optional Value. Returns nullopt if a name is not known or the text is not an expression.
template <class Value, class Arithmetic>
std::optional<Value> EvaluateSize(std::string_view text, const Arithmetic& arithmetic) {
  if (std::optional<Value> named = arithmetic.Find(text)) return named;
  return SizeReader<Value, Arithmetic>(text, arithmetic).Read();
}

}  // namespace opgraft::internal
#pragma GCC visibility pop
