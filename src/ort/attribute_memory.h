// An attribute as opgraft/c_api.h hands it over, with the memory that it takes.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/attributes.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// The value of one attribute, and the memory that its struct points to.
class AttributeMemory {
 public:
  explicit AttributeMemory(const Runtime& runtime) : runtime_(runtime) {}
  AttributeMemory(const AttributeMemory&) = delete;
  AttributeMemory& operator=(const AttributeMemory&) = delete;
  ~AttributeMemory();

  /// Reads an attribute of kind `kind`; no attribute where there is none. Whole numbers may stand
  /// for others.
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
