// A node whose kernel is being created, behind the interface that opgraft/c_api.h gives to a pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/attribute_memory.h"
#include "adapter/attributes.h"
#include "adapter/runtime.h"
#include "base/pack_error.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

class PackNode : public OpgraftNode {
 public:
  PackNode(const Runtime& runtime, const OrtKernelInfo* info);

  /// Reads the name and the counts; must be called first. A node without a name is named after its
  /// operator and its first output, as when a model is prepared.
  Status Read(std::string_view operator_name);

  const std::string& name() const { return name_; }
  const PackErrors& errors() const { return errors_; }

 private:
  static const OpgraftNodeTable kTable;
  static PackNode& Self(OpgraftNode* self) { return *static_cast<PackNode*>(self); }
  static void Fail(OpgraftNode* self, const OpgraftError* error);
  static OpgraftText Name(OpgraftNode* self);
  static std::size_t InputCount(OpgraftNode* self) { return Self(self).inputs_; }
  static std::size_t OutputCount(OpgraftNode* self) { return Self(self).outputs_; }
  static int InputType(OpgraftNode* self, std::size_t index, std::int32_t* type);
  static int Attribute(OpgraftNode* self, const char* name, std::int32_t kind,
                       OpgraftAttribute* attribute);
  static int Constant(OpgraftNode* self, std::size_t index, OpgraftTensor* tensor);
  Status ReadConstant(std::size_t index, OpgraftTensor* tensor);

  const Runtime runtime_;
  const OrtKernelInfo* const info_;
  const KernelAttributes attributes_;
  std::string name_;
  std::size_t inputs_ = 0;
  std::size_t outputs_ = 0;
  PackErrors errors_;
  std::deque<AttributeMemory> values_;
  std::pmr::monotonic_buffer_resource memory_;
  std::deque<std::string> storages_;
  std::deque<std::vector<OpgraftText>> texts_;
};

}  // namespace opgraft::ort
