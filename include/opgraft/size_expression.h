// Sizes that are not known yet, as expressions of names: the one way in which they are computed
// with, written and read. A public header, since packs and programs of tests need it without the
// core's sources; Python has it as opgraft._pyop.SizeExpression and evaluate_size.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(hidden)  // each pack has its own
namespace opgraft::internal {

/// A sum of products of names, such as `2*n + 1`. Equal ones have the same text. Any text may be a
/// name, so that a sum is not to be read back where names are a model's.
class SizeExpression {
 public:
  SizeExpression(std::int64_t number = 0) {  // NOLINT(google-explicit-constructor)
    if (number != 0) terms_[{}] = number;
  }
  static SizeExpression Named(std::string name) {
    SizeExpression made;
    made.terms_[{std::move(name)}] = 1;
    return made;
  }

  /// nullopt where it has names.
  std::optional<std::int64_t> number() const {
    if (terms_.empty()) return 0;
    const auto& [names, factor] = *terms_.begin();
    return terms_.size() == 1 && names.empty() ? std::optional(factor) : std::nullopt;
  }
  /// Whether it is nothing but one name.
  bool IsName() const {
    return terms_.size() == 1 && terms_.begin()->first.size() == 1 && terms_.begin()->second == 1;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> all;
    for (const auto& [names, factor] : terms_) all.insert(all.end(), names.begin(), names.end());
    return all;
  }

  bool operator==(const SizeExpression& other) const { return terms_ == other.terms_; }

  // Where a number does not fit into 64 bits they throw std::overflow_error.
  friend SizeExpression operator+(const SizeExpression& a, const SizeExpression& b) {
    SizeExpression sum = a;
    for (const auto& [names, factor] : b.terms_) sum.Add(names, factor);
    return sum;
  }
  friend SizeExpression operator-(const SizeExpression& a, const SizeExpression& b) {
    return a + b * -1;
  }
  friend SizeExpression operator*(const SizeExpression& a, const SizeExpression& b) {
    SizeExpression product;
    for (const auto& [left, left_factor] : a.terms_) {
      for (const auto& [right, right_factor] : b.terms_) {
        std::vector<std::string> names = left;
        names.insert(names.end(), right.begin(), right.end());
        std::sort(names.begin(), names.end());
        std::int64_t factor = 0;
        if (__builtin_mul_overflow(left_factor, right_factor, &factor)) {
          throw std::overflow_error("a size is too large");
        }
        product.Add(names, factor);
      }
    }
    return product;
  }
  /// Rounded down.
  friend SizeExpression operator/(const SizeExpression& a, const SizeExpression& b) {
    if (!a.IsMultipleOf(b)) return Named("(" + a.Text() + ")//(" + b.Text() + ")");
    if (*b.number() == -1) return a * -1;
    SizeExpression quotient = a;
    for (auto& [names, factor] : quotient.terms_) factor /= *b.number();
    return quotient;
  }
  friend SizeExpression operator%(const SizeExpression& a, const SizeExpression& b) {
    if (a.IsMultipleOf(b)) return 0;
    return Named("(" + a.Text() + ")%(" + b.Text() + ")");
  }

  std::string Text() const {
    std::string text;
    for (const auto& [names, factor] : terms_) {
      if (!names.empty()) AddText(names, factor, &text);
    }
    const auto constant = terms_.find({});
    if (constant != terms_.end()) AddText({}, constant->second, &text);
    return text.empty() ? "0" : text;
  }

  /// Its value by EvaluateSize's `arithmetic`; nullopt where it does not know a name.
  template <class Value, class Arithmetic>
  std::optional<Value> Evaluate(const Arithmetic& arithmetic) const {
    std::optional<Value> sum = arithmetic.Number(0);
    for (const auto& [names, factor] : terms_) {
      std::optional<Value> product = arithmetic.Number(factor);
      for (const std::string& name : names) {
        const std::optional<Value> size = arithmetic.Find(name);
        product = product && size ? arithmetic.Calculate('*', *product, *size) : std::nullopt;
      }
      sum = sum && product ? arithmetic.Calculate('+', *sum, *product) : std::nullopt;
    }
    return sum;
  }

 private:
  void Add(const std::vector<std::string>& names, std::int64_t factor) {
    std::int64_t& sum = terms_[names];
    if (__builtin_add_overflow(sum, factor, &sum)) throw std::overflow_error("a size is too large");
    if (sum == 0) terms_.erase(names);
  }
  bool IsMultipleOf(const SizeExpression& other) const {
    const std::optional<std::int64_t> number = other.number();
    return number.value_or(0) != 0 &&
           std::all_of(terms_.begin(), terms_.end(), [&](const auto& term) {
             return *number == -1 || term.second % *number == 0;
           });
  }
  static void AddText(const std::vector<std::string>& names, std::int64_t factor,
                      std::string* text) {
    const bool is_first = text->empty();
    *text += factor < 0 ? (is_first ? "-" : " - ") : (is_first ? "" : " + ");
    std::string digits = std::to_string(factor);
    if (factor < 0) digits.erase(0, 1);
    std::string sign;
    if (digits != "1" || names.empty()) {
      *text += digits;
      sign = "*";
    }
    for (const std::string& name : names) {
      *text += sign + name;
      sign = "*";
    }
  }

  /// By the names of factors, sorted; none of the numbers is 0.
  std::map<std::vector<std::string>, std::int64_t> terms_;
};

/// Reads a text of names, numbers, `+ - * / // %` and parentheses, and computes it.
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

/// The value of a text such as "2*n + 1", or of a name that is any text. `arithmetic` has
/// `Find(name)`, `Number(number)` and `Calculate(sign, a, b)`, which return an optional Value.
/// nullopt where it has a name that is not known, or makes no sense.
template <class Value, class Arithmetic>
std::optional<Value> EvaluateSize(std::string_view text, const Arithmetic& arithmetic) {
  if (std::optional<Value> named = arithmetic.Find(text)) return named;
  return SizeReader<Value, Arithmetic>(text, arithmetic).Read();
}

}  // namespace opgraft::internal
#pragma GCC visibility pop
