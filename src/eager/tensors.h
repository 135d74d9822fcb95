// Tensors of torch's as views of their memory, and memory of ours as tensors of torch's.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "eager/dlpack.h"
#include "opgraft/status.h"

namespace opgraft::eager {

/// torch's table in the capsule `torch.Tensor.__dlpack_c_exchange_api__`; an UnavailableError where
/// there is none that we know.
Status FindExchange(nanobind::handle capsule, const dlpack::Exchange** exchange);

/// ONNX's number of the type; 0 for one that ONNX lacks.
std::int32_t ElementTypeOf(dlpack::DataType type);

/// The other way round; false where DLPack has none.
bool FindDataType(std::int64_t element_type, dlpack::DataType* type);

inline std::span<const std::int64_t> ShapeOf(const dlpack::Tensor& tensor) {
  return {tensor.shape, static_cast<std::size_t>(tensor.rank)};
}

/// Whether all elements lie in one block, in row-major order.
bool IsContiguous(const dlpack::Tensor& tensor);

inline void* DataOf(const dlpack::Tensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/// Memory on its way to torch.
class OutputTensor {
 public:
  /// Elements that are not set yet, aligned for any instruction; false where there is no memory for
  /// them. Needs no GIL.
  bool Allocate(std::int32_t element_type, std::span<const std::int64_t> shape);
  /// Those of an array, in one block, which is kept for as long as the tensor lives. Needs the GIL.
  bool Share(nanobind::object array, std::int32_t element_type, std::span<const std::int64_t> shape,
             void* data);

  bool is_there() const { return block_ != nullptr; }
  void* data() const { return block_->managed.tensor.data; }

  /// Hands it to torch. A new reference, or nullptr with a Python error set. Needs the GIL.
  PyObject* Give(const dlpack::Exchange& exchange);

 private:
  struct Block {
    dlpack::ManagedTensor managed;
    PyObject* array;   // that owns the memory; nullptr where it follows this
    void* allocation;  // which all of this lies in
  };
  struct Free {
    void operator()(Block* block) const;
  };
  /// `extra` bytes follow, aligned; nullptr where there is no memory.
  static Block* MakeBlock(std::int32_t element_type, std::span<const std::int64_t> shape,
                          std::size_t extra, void** memory);

  std::unique_ptr<Block, Free> block_;
};

}  // namespace opgraft::eager
