// Tensors as the runtime lends them, and what libtorch calls their types.
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
  bool is_on_gpu = false;     ///< `data` is nothing that this program can read
  void* host_copy = nullptr;  ///< of one on a GPU, where the call asks for it

  /// Its elements, where this program can read them; nullptr where it cannot.
  void* readable() const { return is_on_gpu ? host_copy : data; }
};

/// The number of elements of a shape.
std::size_t Count(std::span<const std::int64_t> shape);

/// Element `index` of a tensor of integers or truths; nullopt for another, and for one that this
/// program cannot read.
std::optional<std::int64_t> ReadInteger(const InputTensor& input, std::size_t index);

/// The same as a float, of a tensor of any numbers.
std::optional<double> ReadReal(const InputTensor& input, std::size_t index);

/// The numbers by which a libtorch knows the types of tensors.
class DtypeNumbers {
 public:
  explicit DtypeNumbers(const Libtorch& libtorch);

  /// The type with this number; nullptr for one that ONNX Runtime does not carry.
  const Dtype* Find(std::int32_t number) const;

  /// -1 where this libtorch does not have it.
  std::int32_t NumberOf(const Dtype& dtype) const;

  /// Of tensors whose element type in ONNX is this; -1 where there is none.
  std::int32_t NumberOf(int element_type, bool is_complex) const;

 private:
  std::int32_t numbers_[kDtypes];
  std::int32_t by_element_type_[2][32];
};

}  // namespace opgraft::aten
