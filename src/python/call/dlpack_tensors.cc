// Conversion between DLPack's types and ONNX's, and blocks of memory with a DLPack header.
#include "python/call/dlpack_tensors.h"

#include <array>
#include <new>
#include <utility>

#include "base/element_type.h"
#include "core/platform.h"
#include "python/call/exit_gate.h"
#include "python/call/gil.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

constexpr std::size_t kAlignment = 64;  // enough for any instruction; torch aligns so too

constexpr std::size_t Aligned(std::size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::size_t kDlpackCodes = 14;
/// The number of the element type for each DLPack code and size in bytes, or 0. A table, because
/// every call looks up each tensor.
constexpr auto kByDlpack = [] {
  std::array<std::array<std::uint8_t, 32>, kDlpackCodes> numbers = {};
  for (const ElementType& type : kElementTypes) {
    if (type.dlpack == internal::DlpackCode::kNone) continue;
    numbers.at(static_cast<std::size_t>(type.dlpack)).at(type.size) =
        static_cast<std::uint8_t>(type.number);
  }
  return numbers;
}();

}  // namespace

Status FindExchange(nb::handle capsule, const dlpack::Exchange** exchange) {
  const auto* header = static_cast<const dlpack::ExchangeHeader*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
  if (header == nullptr) PyErr_Clear();
  while (header != nullptr && header->version.major > dlpack::kMajorVersion) {
    header = header->previous;
  }
  const auto* const found = reinterpret_cast<const dlpack::Exchange*>(header);
  if (found == nullptr || header->version.major != dlpack::kMajorVersion ||
      found->view_from_object == nullptr || found->managed_to_object == nullptr) {
    return Status::Unavailable(
        "this torch offers no DLPack functions of version 1 "
        "(torch.Tensor.__dlpack_c_exchange_api__). Fix: use torch 2.13, with which Opgraft "
        "is tested");
  }
  *exchange = found;
  return Status();
}

std::int32_t ElementTypeOf(dlpack::DataType type) {
  if (type.lanes != 1 || type.code >= kDlpackCodes || type.bits % 8 != 0) return 0;
  return kByDlpack[type.code][type.bits / 8];
}

bool FindDataType(std::int64_t element_type, dlpack::DataType* type) {
  const ElementType* const known = FindElementType(element_type);
  if (known == nullptr || known->dlpack == internal::DlpackCode::kNone) return false;
  *type = {static_cast<std::uint8_t>(known->dlpack), static_cast<std::uint8_t>(known->bits), 1};
  return true;
}

bool IsContiguous(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t axis = tensor.rank - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

void OutputTensor::Free::operator()(Block* block) const {
  // torch may release tensors in any thread, even after Python has ended.
  if (block->array != nullptr && Py_IsInitialized() != 0) {
    try {
      const pyop::ScopedGil gil;
      Py_DECREF(block->array);
    } catch (const platform::ThreadExit&) {
      pyop::Park();
    }
  }
  std::free(block->allocation);
}

OutputTensor::Block* OutputTensor::MakeBlock(std::int32_t element_type,
                                             std::span<const std::int64_t> shape, std::size_t extra,
                                             void** memory) {
  const std::size_t sizes = 2 * shape.size() * sizeof(std::int64_t);
  const std::size_t header = Aligned(sizeof(Block) + sizes);
  if (extra > SIZE_MAX - header - kAlignment) return nullptr;
  // Not posix_memalign, which is several times slower for small blocks.
  std::size_t space = header + extra + kAlignment;
  void* const allocation = std::malloc(space);
  void* made = allocation;
  if (made == nullptr || std::align(kAlignment, header + extra, made, space) == nullptr) {
    std::free(allocation);
    return nullptr;
  }
  auto* const block = new (made) Block{};
  block->allocation = allocation;
  auto* const lengths = reinterpret_cast<std::int64_t*>(block + 1);
  std::int64_t* const strides = lengths + shape.size();
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    lengths[axis] = shape[axis];
    strides[axis] = stride;
    if (shape[axis] > 1) stride *= shape[axis];
  }
  dlpack::DataType type = {};
  FindDataType(element_type, &type);
  *memory = static_cast<char*>(made) + header;
  block->managed = {{dlpack::kMajorVersion, dlpack::kMinorVersion},
                    block,
                    [](dlpack::ManagedTensor* self) { Free()(static_cast<Block*>(self->context)); },
                    0,
                    {*memory,
                     {dlpack::kCpu, 0},
                     static_cast<std::int32_t>(shape.size()),
                     type,
                     lengths,
                     strides,
                     0}};
  return block;
}

bool OutputTensor::Allocate(std::int32_t element_type, std::span<const std::int64_t> shape) {
  std::size_t size = FindElementType(element_type)->size;
  for (const std::int64_t one : shape) {
    if (__builtin_mul_overflow(size, static_cast<std::size_t>(one), &size)) return false;
  }
  void* memory = nullptr;
  block_.reset(MakeBlock(element_type, shape, size, &memory));
  return block_ != nullptr;
}

bool OutputTensor::Share(nb::object array, std::int32_t element_type,
                         std::span<const std::int64_t> shape, void* data) {
  void* memory = nullptr;
  block_.reset(MakeBlock(element_type, shape, 0, &memory));
  if (block_ == nullptr) return false;
  block_->array = array.release().ptr();
  block_->managed.tensor.data = data;
  return true;
}

PyObject* OutputTensor::Give(const dlpack::Exchange& exchange) {
  void* object = nullptr;
  // If this fails, torch may or may not have taken the block, so it is leaked rather than freed.
  if (exchange.managed_to_object(&block_.release()->managed, &object) != 0) return nullptr;
  return static_cast<PyObject*>(object);
}

}  // namespace opgraft::eager
