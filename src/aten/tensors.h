// Tensors in the runtime's memory, and libtorch's numbers for their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "aten/dtype.h"
#include "aten/libtorch.h"

namespace opgraft::aten {

/// An input of the node in one run: a view of the runtime's memory.
struct InputTensor {
  void* data = nullptr;
  int element_type = 0;
  std::span<const std::int64_t> shape;
  bool is_on_gpu = false;     ///< the CPU cannot read `data`
  void* host_copy = nullptr;  ///< of a tensor on a GPU, if the call asks for it

  /// The elements in memory that the CPU can read; nullptr if there are none.
  void* readable() const { return is_on_gpu ? host_copy : data; }
};

/// The number of elements of a shape.
std::size_t Count(std::span<const std::int64_t> shape);

/// Returns element `index` of a tensor of integers or bools; nullopt for other types, and if the
/// CPU cannot read the tensor.
std::optional<std::int64_t> ReadInteger(const InputTensor& input, std::size_t index);

/// The same for a tensor of any numbers, as a float.
std::optional<double> ReadReal(const InputTensor& input, std::size_t index);

/// The numbers that a libtorch gives to the types of tensors.
class DtypeNumbers {
 public:
  explicit DtypeNumbers(const Libtorch& libtorch);

  /// Returns the type with this number; nullptr for a type that ONNX Runtime does not carry.
  const Dtype* Find(std::int32_t number) const;

  /// Returns -1 if this libtorch does not have the type.
  std::int32_t NumberOf(const Dtype& dtype) const;

  /// Returns the number for tensors with this ONNX element type; -1 if there is none.
  std::int32_t NumberOf(int element_type, bool is_complex) const;

 private:
  std::int32_t numbers_[kDtypes];
  std::int32_t by_element_type_[2][32];
};

}  // namespace opgraft::aten
