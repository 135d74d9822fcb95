// Status, exceptions and their macros, as kernels of ONNX Runtime's tree use them.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "opgraft/status.h"

#pragma GCC visibility push(hidden)
namespace onnxruntime {

/// Returns all parts as one text.
template <class... Parts>
std::string MakeString(const Parts&... parts) {
  std::ostringstream text;
  static_cast<void>((text << ... << parts));
  return text.str();
}

namespace common {

enum StatusCategory { NONE = 0, SYSTEM = 1, ONNXRUNTIME = 2 };

/// The numbers of the runtime's OrtErrorCode.
enum StatusCode {
  OK = 0,
  FAIL = 1,
  INVALID_ARGUMENT = 2,
  NO_SUCHFILE = 3,
  NO_MODEL = 4,
  ENGINE_ERROR = 5,
  RUNTIME_EXCEPTION = 6,
  INVALID_PROTOBUF = 7,
  MODEL_LOADED = 8,
  NOT_IMPLEMENTED = 9,
  INVALID_GRAPH = 10,
  EP_FAIL = 11,
};

/// "INVALID_ARGUMENT"
constexpr const char* StatusCodeToString(StatusCode code) noexcept {
  constexpr const char* kNames[] = {"SUCCESS",           "FAIL",
                                    "INVALID_ARGUMENT",  "NO_SUCHFILE",
                                    "NO_MODEL",          "ENGINE_ERROR",
                                    "RUNTIME_EXCEPTION", "INVALID_PROTOBUF",
                                    "MODEL_LOADED",      "NOT_IMPLEMENTED",
                                    "INVALID_GRAPH",     "EP_FAIL"};
  return code >= OK && code <= EP_FAIL ? kNames[code] : "GENERAL ERROR";
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCategory category, int code, std::string message = {})
      : category_(category), code_(code), message_(std::move(message)) {}
  static Status OK() { return {}; }

  bool IsOK() const { return code_ == StatusCode::OK; }
  int Code() const noexcept { return code_; }
  StatusCategory Category() const noexcept { return category_; }
  const std::string& ErrorMessage() const noexcept { return message_; }
  std::string ToString() const {
    if (IsOK()) return "OK";
    return StatusCodeToString(static_cast<StatusCode>(code_)) + (": " + message_);
  }
  bool operator==(const Status& other) const {
    return code_ == other.code_ && message_ == other.message_;
  }

  /// Converts to the host's status.
  opgraft::Status ToHost() const {
    if (IsOK()) return {};
    const bool is_model = code_ == INVALID_GRAPH || code_ == INVALID_PROTOBUF;
    return {is_model ? opgraft::ErrorKind::kModel : opgraft::ErrorKind::kError, ToString()};
  }

 private:
  StatusCategory category_ = NONE;
  int code_ = StatusCode::OK;
  std::string message_;
};

}  // namespace common
using common::Status;

/// A place in the source code. It has the file name without its folder, so that a pack reveals
/// nothing about the machine that it was built on.
struct CodeLocation {
  CodeLocation(std::string_view path, int line_number, const char* function_name)
      : file(path.substr(path.rfind('/') + 1)), line(line_number), function(function_name) {}
  std::string ToString() const { return file + ":" + std::to_string(line) + " " + function; }

  std::string file;
  int line;
  std::string function;
};

/// What ORT_ENFORCE and ORT_THROW throw.
class OnnxRuntimeException : public std::runtime_error {
 public:
  OnnxRuntimeException(const CodeLocation& location, const std::string& message)
      : OnnxRuntimeException(location, nullptr, message) {}
  OnnxRuntimeException(const CodeLocation& location, const char* failed_condition,
                       const std::string& message)
      : std::runtime_error(
            location.ToString() + ": " +
            (failed_condition != nullptr ? std::string(failed_condition) + " was false. " : "") +
            message) {}
};

/// What ORT_NOT_IMPLEMENTED throws.
class NotImplementedException : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace onnxruntime
#pragma GCC visibility pop

#define ORT_WHERE ::onnxruntime::CodeLocation(__FILE__, __LINE__, __func__)
#define ORT_TRY try
#define ORT_CATCH(x) catch (x)
#define ORT_RETHROW throw;
#define ORT_HANDLE_EXCEPTION(func) func()

#define ORT_THROW(...) \
  throw ::onnxruntime::OnnxRuntimeException(ORT_WHERE, ::onnxruntime::MakeString(__VA_ARGS__))
#define ORT_NOT_IMPLEMENTED(...) \
  throw ::onnxruntime::NotImplementedException(::onnxruntime::MakeString(__VA_ARGS__))
#define ORT_ENFORCE(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      throw ::onnxruntime::OnnxRuntimeException(ORT_WHERE, #condition,                   \
                                                ::onnxruntime::MakeString(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)
#define ORT_THROW_IF_ERROR(expr)                                                         \
  do {                                                                                   \
    if (const ::onnxruntime::common::Status ort_status_ = (expr); !ort_status_.IsOK()) { \
      ORT_THROW(ort_status_.ToString());                                                 \
    }                                                                                    \
  } while (false)

#define ORT_MAKE_STATUS(category, code, ...)                                                  \
  ::onnxruntime::common::Status(::onnxruntime::common::category, ::onnxruntime::common::code, \
                                ::onnxruntime::MakeString(__VA_ARGS__))
#define ORT_RETURN_IF_ERROR(expr)                                                  \
  do {                                                                             \
    if (::onnxruntime::common::Status ort_status_ = (expr); !ort_status_.IsOK()) { \
      return ort_status_;                                                          \
    }                                                                              \
  } while (false)
#define ORT_RETURN_IF(condition, ...)                                                             \
  do {                                                                                            \
    if (condition) {                                                                              \
      return ORT_MAKE_STATUS(ONNXRUNTIME, FAIL, "Satisfied, but should not be: " #condition "\n", \
                             ORT_WHERE.ToString(), ": " __VA_OPT__(, ) __VA_ARGS__);              \
    }                                                                                             \
  } while (false)
#define ORT_RETURN_IF_NOT(condition, ...)                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      return ORT_MAKE_STATUS(ONNXRUNTIME, FAIL, "Not satisfied: " #condition "\n",   \
                             ORT_WHERE.ToString(), ": " __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                \
  } while (false)
#define ORT_CHECK_AND_SET_RETVAL(expr)  \
  do {                                  \
    if (retval.IsOK()) retval = (expr); \
  } while (false)

#define ORT_UNUSED_PARAMETER(x) static_cast<void>(x)
#define ORT_IGNORE_RETURN_VALUE(expr) static_cast<void>(expr)
#define ORT_ATTRIBUTE_UNUSED [[maybe_unused]]
// NOLINTBEGIN(bugprone-macro-parentheses): names of types
#define ORT_DISALLOW_COPY(Type) Type(const Type&) = delete
#define ORT_DISALLOW_ASSIGNMENT(Type) Type& operator=(const Type&) = delete
#define ORT_DISALLOW_COPY_AND_ASSIGNMENT(Type) \
  ORT_DISALLOW_COPY(Type);                     \
  ORT_DISALLOW_ASSIGNMENT(Type)
#define ORT_DISALLOW_MOVE(Type) \
  Type(Type&&) = delete;        \
  Type& operator=(Type&&) = delete
#define ORT_DISALLOW_COPY_ASSIGNMENT_AND_MOVE(Type) \
  ORT_DISALLOW_COPY_AND_ASSIGNMENT(Type);           \
  ORT_DISALLOW_MOVE(Type)
// NOLINTEND(bugprone-macro-parentheses)
