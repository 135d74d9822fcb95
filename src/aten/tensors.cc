// Reads single elements with memcpy: a model may place them unaligned.
#include "aten/tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace opgraft::aten {
namespace {

template <class T>
T Read(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

double FromHalf(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction == 0 ? std::numeric_limits<double>::infinity()
                                                   : std::numeric_limits<double>::quiet_NaN())
                                  : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

std::size_t Count(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

std::optional<std::int64_t> ReadInteger(const InputTensor& input, std::size_t index) {
  if (input.readable() == nullptr) return std::nullopt;
  switch (input.element_type) {
    case 2: return Read<std::uint8_t>(input.readable(), index);
    case 3: return Read<std::int8_t>(input.readable(), index);
    case 4: return Read<std::uint16_t>(input.readable(), index);
    case 5: return Read<std::int16_t>(input.readable(), index);
    case 6: return Read<std::int32_t>(input.readable(), index);
    case 7: return Read<std::int64_t>(input.readable(), index);
    case 9: return Read<std::uint8_t>(input.readable(), index) != 0 ? 1 : 0;
    case 12: return Read<std::uint32_t>(input.readable(), index);
    default: return std::nullopt;
  }
}

std::optional<double> ReadReal(const InputTensor& input, std::size_t index) {
  if (input.readable() == nullptr) return std::nullopt;
  switch (input.element_type) {
    case 1: return Read<float>(input.readable(), index);
    case 10: return FromHalf(Read<std::uint16_t>(input.readable(), index));
    case 11: return Read<double>(input.readable(), index);
    case 16: {
      const std::uint32_t bits = Read<std::uint16_t>(input.readable(), index);
      return std::bit_cast<float>(bits << 16U);
    }
    default: break;
  }
  const std::optional<std::int64_t> integer = ReadInteger(input, index);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

DtypeNumbers::DtypeNumbers(const Libtorch& libtorch) {
  for (auto& row : by_element_type_) std::fill(std::begin(row), std::end(row), -1);
  for (int i = 0; i < kDtypes; ++i) {
    const Dtype& dtype = DtypeAt(i);
    numbers_[i] = libtorch.FindNumber("dtype", std::string(dtype.name));
    by_element_type_[dtype.is_complex ? 1 : 0][dtype.element_type] = numbers_[i];
  }
}

const Dtype* DtypeNumbers::Find(std::int32_t number) const {
  for (int i = 0; i < kDtypes; ++i) {
    if (numbers_[i] == number) return &DtypeAt(i);
  }
  return nullptr;
}

std::int32_t DtypeNumbers::NumberOf(const Dtype& dtype) const {
  return NumberOf(dtype.element_type, dtype.is_complex);
}

std::int32_t DtypeNumbers::NumberOf(int element_type, bool is_complex) const {
  if (element_type < 0 || element_type >= 32) return -1;
  return by_element_type_[is_complex ? 1 : 0][element_type];
}

}  // namespace opgraft::aten
