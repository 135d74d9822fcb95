// The outcome of a call: success, or an error as a value with its kind and text.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace opgraft {

/// The kind of an error. Each kind except kNone is a subclass of `opgraft.Error` in Python.
enum class ErrorKind : int {
  kNone = 0,
  kError = 1,   ///< opgraft.Error: the call is invalid
  kPyOp = 2,    ///< opgraft.PyOpError: the Python operator raised, or returned something invalid
  kModel = 3,   ///< opgraft.ModelError: the model is invalid or asks for something impossible
  kPolicy = 4,  ///< opgraft.PolicyError: the host does not allow what the model would run
  kUnavailable = 5,  ///< opgraft.UnavailableError: something is not installed, too old or too new
};

/// Returns the name of `kind` in Python, such as "PyOpError".
constexpr std::string_view Name(ErrorKind kind) {
  constexpr std::string_view kNames[] = {"",           "Error",       "PyOpError",
                                         "ModelError", "PolicyError", "UnavailableError"};
  return kNames[static_cast<int>(kind)];
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  static Status Error(std::string message) { return {ErrorKind::kError, std::move(message)}; }
  static Status PyOp(std::string message) { return {ErrorKind::kPyOp, std::move(message)}; }
  static Status Model(std::string message) { return {ErrorKind::kModel, std::move(message)}; }
  static Status Policy(std::string message) { return {ErrorKind::kPolicy, std::move(message)}; }
  static Status Unavailable(std::string message) {
    return {ErrorKind::kUnavailable, std::move(message)};
  }

  bool ok() const { return kind_ == ErrorKind::kNone; }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }

  /// "opgraft.ModelError: ...", the form in which ONNX Runtime passes an error on as text.
  std::string ToString() const {
    return ok() ? "OK" : "opgraft." + std::string(Name(kind_)) + ": " + message_;
  }

  /// Finds the error in `text`, which ONNX Runtime has reported; OK if it contains none.
  /// `exception` is set to the number under which opgraft._base._failure keeps the Python
  /// exception, or 0.
  static Status FindIn(std::string_view text, long long* exception = nullptr) {
    Status found;
    std::size_t first = text.size();
    for (int kind = 1; kind <= static_cast<int>(ErrorKind::kUnavailable); ++kind) {
      const std::string mark = Status(static_cast<ErrorKind>(kind), "").ToString();
      const std::size_t position = text.find(mark);
      if (position >= first) continue;
      first = position;
      found.kind_ = static_cast<ErrorKind>(kind);
      found.message_ = text.substr(position + mark.size());
    }
    long long number = 0;
    int length = 0;
    if (std::sscanf(found.message_.c_str(), "[%lld] %n", &number, &length) == 1 && length > 0) {
      found.message_.erase(0, static_cast<std::size_t>(length));
    }
    if (exception != nullptr) *exception = length > 0 ? number : 0;
    return found;
  }

 private:
  ErrorKind kind_ = ErrorKind::kNone;
  std::string message_;
};

}  // namespace opgraft
