// An attribute in the form of opgraft/c_api.h, with the memory that its struct points to.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

#include "adapter/attributes.h"
#include "adapter/runtime.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// The value of one attribute, and the memory that its struct points to.
class AttributeMemory {
 public:
  explicit AttributeMemory(const Runtime& runtime) : runtime_(runtime) {}
  AttributeMemory(const AttributeMemory&) = delete;
  AttributeMemory& operator=(const AttributeMemory&) = delete;
  ~AttributeMemory();

  /// Reads an attribute of kind `kind`; if the node does not have it, `read` stays empty. Integers
  /// are accepted where floats are expected.
  Status Read(const Attributes& attributes, const char* name, int kind, OpgraftAttribute* read);

 private:
  Status ReadTensorValue(OpgraftAttribute* read);

  const Runtime runtime_;
  std::int64_t integer_ = 0;
  float number_ = 0;
  std::string text_;
  std::vector<std::int64_t> integers_;
  std::vector<float> numbers_;
  std::vector<std::string> strings_;
  std::vector<OpgraftText> texts_;
  OpgraftTensor tensor_ = {};
  OrtValue* value_ = nullptr;
  std::pmr::monotonic_buffer_resource memory_;
  std::string storage_;
};

}  // namespace opgraft::ort
