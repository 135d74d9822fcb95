// One run of a kernel, behind the interface that opgraft/c_api.h gives to a pack.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "adapter/device.h"
#include "adapter/runtime.h"
#include "base/pack_error.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// One run of a kernel. In usual cases it needs no heap memory.
class PackCall : public OpgraftCall {
 public:
  /// `output_types`: the element type that the kernel writes to each output.
  /// `device`: the device that the kernel runs on; nullptr for the CPU.
  PackCall(const Runtime& runtime, OrtKernelContext* context,
           const std::vector<std::int32_t>& output_types, const Device* device);
  PackCall(const PackCall&) = delete;
  PackCall& operator=(const PackCall&) = delete;
  ~PackCall();

  const PackErrors& errors() const { return errors_; }

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
  static int Stream(OpgraftCall* self, void** stream);
  /// Keeps an error; returns the result for the functions above.
  int Keep(Status status);
  int Keep(OrtStatus* status);
  /// Fills in the texts of a tensor of strings, whose shape is known already.
  Status ReadTextInput(const OrtValue* value, OpgraftTensor* tensor);
  /// The memory that lives until the call is over; most calls need none.
  std::pmr::memory_resource* memory();
  std::int32_t OutputType(std::size_t index) const;

  const Runtime& runtime_;
  const OrtApi* const api_;
  OrtKernelContext* const context_;
  const std::vector<std::int32_t>& output_types_;
  const Device* const device_;
  PackErrors errors_;
  std::array<std::byte, 256> buffer_;
  std::optional<std::pmr::monotonic_buffer_resource> memory_;
  OrtAllocator* allocator_ = nullptr;
  std::vector<void*> scratch_;
};

}  // namespace opgraft::ort
