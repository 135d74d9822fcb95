// The outcome of a call: fine, or an error as a value, with its kind and its text.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace opgraft {

/// What went wrong. Each kind but kNone is a class below `opgraft.Error` in Python.
enum class ErrorKind : int {
  kNone = 0,
  kError = 1,        ///< opgraft.Error: a call that makes no sense as it stands
  kPyOp = 2,         ///< opgraft.PyOpError: the Python operator raised, or gave what it must not
  kModel = 3,        ///< opgraft.ModelError: the model is broken, or asks for what cannot be
  kPolicy = 4,       ///< opgraft.PolicyError: the host has not allowed what the model would run
  kUnavailable = 5,  ///< opgraft.UnavailableError: something is not installed, or too old or new
};

/// The name of `kind` as Python programs know it, such as "PyOpError".
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

  /// "opgraft.ModelError: ...", the form in which an error travels through ONNX Runtime as text.
  std::string ToString() const {
    return ok() ? "OK" : "opgraft." + std::string(Name(kind_)) + ": " + message_;
  }

  /// Finds the error that `text`, as ONNX Runtime reports it, carries; OK where it carries none.
  /// `exception` gets the number under which opgraft._failure keeps the Python exception, or 0.
  static Status FindIn(std::string_view text, long long* exception = nullptr) {
    Status found;
    std::size_t first = text.size();
    for (int kind = 1; kind <= static_cast<int>(ErrorKind::kUnavailable); ++kind) {
      const std::string mark = Status(static_cast<ErrorKind>(kind), "").ToString();
      const std::size_t at = text.find(mark);
      if (at >= first) continue;
      first = at;
      found.kind_ = static_cast<ErrorKind>(kind);
      found.message_ = text.substr(at + mark.size());
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
