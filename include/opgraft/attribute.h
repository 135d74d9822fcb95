// The values of attributes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)  // each pack has its own
namespace opgraft {

/// One of the kinds that an operator of a pack may have; monostate where there is none.
using AttributeValue =
    std::variant<std::monostate, float, std::int64_t, std::string, std::vector<float>,
                 std::vector<std::int64_t>, std::vector<std::string>, TensorValue>;

/// The number that ONNX gives a kind of attributes; 0 for what is none.
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
