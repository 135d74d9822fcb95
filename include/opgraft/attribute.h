// The values of attributes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft {

/// The value of an attribute of a pack's operator; monostate if the attribute is absent.
using AttributeValue =
    std::variant<std::monostate, float, std::int64_t, std::string, std::vector<float>,
                 std::vector<std::int64_t>, std::vector<std::string>, TensorValue>;

/// The number that ONNX gives a kind of attribute; 0 for a type that is not an attribute kind.
template <class T>
inline constexpr std::int32_t kAttributeKind = 0;
template <>
inline constexpr std::int32_t kAttributeKind<float> = 1;
template <>
inline constexpr std::int32_t kAttributeKind<std::int64_t> = 2;
template <>
inline constexpr std::int32_t kAttributeKind<std::string> = 3;
template <>
inline constexpr std::int32_t kAttributeKind<TensorValue> = 4;
template <>
inline constexpr std::int32_t kAttributeKind<std::vector<float>> = 6;
template <>
inline constexpr std::int32_t kAttributeKind<std::vector<std::int64_t>> = 7;
template <>
inline constexpr std::int32_t kAttributeKind<std::vector<std::string>> = 8;

}  // namespace opgraft
#pragma GCC visibility pop
