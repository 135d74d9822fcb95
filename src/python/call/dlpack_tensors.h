// Views of the memory of torch's tensors, and torch tensors over memory of ours.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "opgraft/status.h"
#include "python/call/dlpack.h"

namespace opgraft::eager {

/// Reads torch's table from the capsule `torch.Tensor.__dlpack_c_exchange_api__`. Returns an
/// UnavailableError if it has no version that is supported here.
Status FindExchange(nanobind::handle capsule, const dlpack::Exchange** exchange);

/// Returns ONNX's number of the type, or 0 if ONNX lacks it.
std::int32_t ElementTypeOf(dlpack::DataType type);

/// The inverse of ElementTypeOf. Returns false if DLPack lacks the type.
bool FindDataType(std::int64_t element_type, dlpack::DataType* type);

inline std::span<const std::int64_t> ShapeOf(const dlpack::Tensor& tensor) {
  return {tensor.shape, static_cast<std::size_t>(tensor.rank)};
}

/// Returns whether the elements are contiguous and in row-major order.
bool IsContiguous(const dlpack::Tensor& tensor);

inline void* DataOf(const dlpack::Tensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/// An output that is about to become a torch tensor.
class OutputTensor {
 public:
  /// Allocates uninitialised elements, aligned for any instruction. Returns false if memory runs
  /// out. Needs no GIL.
  bool Allocate(std::int32_t element_type, std::span<const std::int64_t> shape);
  /// Uses the elements of a contiguous array, which the tensor keeps alive. Needs the GIL.
  bool Share(nanobind::object array, std::int32_t element_type, std::span<const std::int64_t> shape,
             void* data);

  bool is_there() const { return block_ != nullptr; }
  void* data() const { return block_->managed.tensor.data; }

  /// Hands the memory to torch. Returns the tensor as a new reference, or nullptr with a Python
  /// error set. Needs the GIL.
  PyObject* Give(const dlpack::Exchange& exchange);

 private:
  struct Block {
    dlpack::ManagedTensor managed;
    PyObject* array;   // owns the elements; nullptr if they follow this struct
    void* allocation;  // the memory that holds this struct
  };
  struct Free {
    void operator()(Block* block) const;
  };
  /// Makes a block followed by `extra` aligned bytes, at `memory`. Returns nullptr if memory runs
  /// out.
  static Block* MakeBlock(std::int32_t element_type, std::span<const std::int64_t> shape,
                          std::size_t extra, void** memory);

  std::unique_ptr<Block, Free> block_;
};

}  // namespace opgraft::eager
