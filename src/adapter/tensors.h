// Tensors of the runtime: their memory and shapes, and strings in both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/runtime.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// The element type whose elements are texts.
inline constexpr int kTextType = 8;

struct TensorParts {
  /// Once read, nullptr only if the runtime has found no memory for the tensor; an empty tensor has
  /// an address in host memory.
  void* data = nullptr;
  int element_type = 0;
  std::span<const std::int64_t> shape;  ///< in the runtime's memory, or in the memory given
};

/// Reads the parts of a tensor. For strings, `data` must not be used.
Status ReadTensor(const Runtime& runtime, const OrtValue* value, std::pmr::memory_resource* memory,
                  TensorParts* parts);

/// The same, for code where each nanosecond counts. If Runtime::LendsShapes, `memory` may be
/// nullptr.
OrtStatus* GetTensorParts(const Runtime& runtime, const OrtValue* value,
                          std::pmr::memory_resource* memory, TensorParts* parts);

/// Reads the elements of a tensor of strings, as views of `storage`.
Status ReadTexts(const OrtApi* api, const OrtValue* value, std::size_t elements,
                 std::string* storage, std::vector<std::string_view>* texts);

/// Stores text `index` of a tensor of strings.
OrtStatus* StoreText(const OrtApi* api, OrtValue* value, std::size_t index, std::string_view text);

/// The number of elements of a shape.
std::size_t Elements(std::span<const std::int64_t> shape);

/// Converts a tensor to the form of the pack contract. The texts of a tensor of strings lie in
/// `storage` and `texts`.
Status ToContract(const Runtime& runtime, const OrtValue* value, std::pmr::memory_resource* memory,
                  std::string* storage, std::vector<OpgraftText>* texts, OpgraftTensor* tensor);

/// The type and sizes of a value in the graph. The element type is 0 if the value is absent. The
/// sizes are empty both for a scalar and for an unknown rank, which the runtime does not
/// distinguish.
struct GraphValue {
  int element_type = 0;
  std::vector<std::int64_t> sizes;
};

/// Reads and releases the result of KernelInfo_Get...TypeInfo. Returns a ModelError that begins
/// with `who` if it is not a tensor.
Status ReadValue(const OrtApi* api, OrtStatus* got, OrtTypeInfo* type_info, const std::string& who,
                 GraphValue* value);

}  // namespace opgraft::ort
