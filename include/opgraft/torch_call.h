// The torch operators that a declared operator can stand for, and their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/element.h"

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft {

/// The torch argument with this name: {"k", opgraft::Argument("diagonal")}.
struct Argument {
  explicit Argument(std::string given) : name(std::move(given)) {}
  std::string name;
};

/// Element types of the first tensor that are left to torch's own translation.
template <class... T>
struct LeftToTorch {
  static std::vector<std::int32_t> Numbers() { return {kElementType<T>...}; }
};

namespace internal {

/// An attribute or input of the operator, or a torch argument that must have a value.
struct TorchArgumentDefinition {
  // NOLINTBEGIN(google-explicit-constructor): they are written {"upper", 1}
  template <class Value>
    requires std::is_arithmetic_v<Value>
  TorchArgumentDefinition(std::string given, Value number) : name(std::move(given)) {
    if constexpr (std::is_floating_point_v<Value>) {
      value = static_cast<float>(number);
    } else {
      value = static_cast<std::int64_t>(number);
    }
  }
  TorchArgumentDefinition(std::string given, std::string text)
      : name(std::move(given)), value(std::move(text)) {}
  TorchArgumentDefinition(std::string given, const char* text)
      : name(std::move(given)), value(std::string(text)) {}
  TorchArgumentDefinition(std::string given, Argument from)
      : name(std::move(given)), argument(std::move(from.name)) {}
  // NOLINTEND(google-explicit-constructor)

  std::string name;
  std::string argument;  ///< empty: it is `value`
  AttributeValue value;
};

struct TorchCallDefinition {
  std::string name;
  std::vector<TorchArgumentDefinition> arguments;
  std::vector<std::int32_t> left_to_torch;
};

}  // namespace internal
}  // namespace opgraft
#pragma GCC visibility pop
