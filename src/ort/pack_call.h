// The contract of opgraft/c_api.h as ONNX Runtime keeps it: nodes, runs and shape inference.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema.h"
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

/// A node whose kernel is being made.
class PackNode : public OpgraftNode {
 public:
  PackNode(const Runtime& runtime, const OrtKernelInfo* info);

  /// Reads the name and the counts; before anything else.
  Status Read();

  const std::string& name() const { return name_; }
  const Status& status() const { return status_; }

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
  Status status_;
  std::deque<AttributeMemory> values_;
  std::pmr::monotonic_buffer_resource memory_;
  std::deque<std::string> storages_;
  std::deque<std::vector<OpgraftText>> texts_;
};

/// One run. What it needs to know of tensors fits into itself, but for odd cases.
class PackCall : public OpgraftCall {
 public:
  /// `output_types`: of each output, as the kernel writes it.
  PackCall(const Runtime& runtime, OrtKernelContext* context,
           const std::vector<std::int32_t>& output_types);
  PackCall(const PackCall&) = delete;
  PackCall& operator=(const PackCall&) = delete;
  ~PackCall();

  const Status& status() const { return status_; }

 private:
  static const OpgraftCallTable kTable;
  static PackCall& Self(OpgraftCall* self) { return *static_cast<PackCall*>(self); }
  static void Fail(OpgraftCall* self, const OpgraftError* error);
  static int Input(OpgraftCall* self, std::size_t index, OpgraftTensor* tensor);
  static int Output(OpgraftCall* self, std::size_t index, const std::int64_t* shape,
                    std::size_t rank, OpgraftTensor* tensor);
  static int StoreTexts(OpgraftCall* self, std::size_t index, const std::int64_t* shape,
                        std::size_t rank, const OpgraftText* texts);
  static int Scratch(OpgraftCall* self, std::size_t bytes, void** memory);
  static int ParallelFor(OpgraftCall* self, std::size_t total, std::size_t batches,
                         void (*body)(void*, std::size_t), void* argument);
  static int Log(OpgraftCall* self, std::int32_t severity, const OpgraftText* text);
  /// Keeps an error; what the functions above return.
  int Keep(Status status);
  int Keep(OrtStatus* status);
  /// Gives a tensor of strings, whose shape is known, its texts.
  Status ReadTextInput(const OrtValue* value, OpgraftTensor* tensor);
  /// What a call has to allocate, until it is over; most calls have nothing.
  std::pmr::memory_resource* memory();
  std::int32_t OutputType(std::size_t index) const;

  const Runtime& runtime_;
  const OrtApi* const api_;
  OrtKernelContext* const context_;
  const std::vector<std::int32_t>& output_types_;
  Status status_;
  std::array<std::byte, 256> buffer_;
  std::optional<std::pmr::monotonic_buffer_resource> memory_;
  OrtAllocator* allocator_ = nullptr;
  std::vector<void*> scratch_;
};

/// A node whose shapes are inferred.
class PackInference : public OpgraftInference {
 public:
  PackInference(const Runtime& runtime, OrtShapeInferContext* context, std::string who);

  Status Read();

  const Status& status() const { return status_; }

 private:
  struct Known {
    int type = 0;
    SymbolicShape shape;
    std::vector<OpgraftDimension> dimensions;
  };
  static const OpgraftInferenceTable kTable;
  static PackInference& Self(OpgraftInference* self) { return *static_cast<PackInference*>(self); }
  static void Fail(OpgraftInference* self, const OpgraftError* error);
  static std::size_t InputCount(OpgraftInference* self) { return Self(self).inputs_.size(); }
  static std::size_t OutputCount(OpgraftInference*) { return SIZE_MAX; }
  static int Input(OpgraftInference* self, std::size_t index, OpgraftShape* shape);
  static int Attribute(OpgraftInference* self, const char* name, std::int32_t kind,
                       OpgraftAttribute* attribute);
  static int Constant(OpgraftInference*, std::size_t, OpgraftTensor*) { return 0; }
  static int SetOutput(OpgraftInference* self, std::size_t index, const OpgraftShape* shape);

  const Runtime runtime_;
  OrtShapeInferContext* const context_;
  const InferenceAttributes attributes_;
  const std::string who_;
  std::vector<Known> inputs_;
  Status status_;
  std::deque<AttributeMemory> values_;
};

}  // namespace opgraft::ort
