// Tensors of the runtime: where their elements lie, and strings in and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// The element type whose elements are texts.
inline constexpr int kTextType = 8;

struct TensorParts {
  /// nullptr, once read, only where the runtime has found no memory for the tensor; an empty one
  /// has some, of the host's.
  void* data = nullptr;
  int element_type = 0;
  std::span<const std::int64_t> shape;  ///< the runtime's, or of the memory given
};

/// Reads what there is to a tensor. For strings, `data` is of no use.
Status ReadTensor(const Runtime& runtime, const OrtValue* value, std::pmr::memory_resource* memory,
                  TensorParts* parts);

/// The same, for where each nanosecond counts; a runtime that lends shapes needs no memory.
OrtStatus* GetTensorParts(const Runtime& runtime, const OrtValue* value,
                          std::pmr::memory_resource* memory, TensorParts* parts);

/// The elements of a tensor of strings, of which there are so many: views of `storage`.
Status ReadTexts(const OrtApi* api, const OrtValue* value, std::size_t elements,
                 std::string* storage, std::vector<std::string_view>* texts);

/// Stores text `index` of a tensor of strings.
OrtStatus* StoreText(const OrtApi* api, OrtValue* value, std::size_t index, std::string_view text);

/// The number of elements of a shape.
std::size_t Elements(std::span<const std::int64_t> shape);

/// A tensor as the contract of packs has it; that of strings gets its texts in memory of the
/// caller's.
Status ToContract(const Runtime& runtime, const OrtValue* value, std::pmr::memory_resource* memory,
                  std::string* storage, std::vector<OpgraftText>* texts, OpgraftTensor* tensor);

/// What the graph says of a value: its element type, 0 where nobody wants it, and its sizes. Those
/// are empty for a scalar and for an unknown rank alike, for the runtime does not tell them apart.
struct GraphValue {
  int element_type = 0;
  std::vector<std::int64_t> sizes;
};

/// Reads what KernelInfo_Get...TypeInfo gave, and releases it. A ModelError that begins with `who`
/// where it is no tensor.
Status ReadValue(const OrtApi* api, OrtStatus* got, OrtTypeInfo* type_info, const std::string& who,
                 GraphValue* value);

}  // namespace opgraft::ort
