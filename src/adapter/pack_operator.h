// Operators of packs as custom operators of ONNX Runtime: one custom operator for each kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adapter/custom_op.h"
#include "adapter/runtime.h"
#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// One kernel of an operator. The declaration and the kernel must outlive it.
class PackOperator : public CustomOpTable {
 public:
  /// `name` is the operator type of nodes, which may differ from the operator's own name;
  /// `provider` is the execution provider, nullptr for the CPU. A kernel for a GPU may be
  /// registered for the CPU too: there it only returns the error that a GPU is missing.
  PackOperator(const Runtime& runtime, const OpgraftOperator& declaration,
               const OpgraftKernel& kernel, std::string name, const char* provider);

  const OrtCustomOp* custom_op() const { return reinterpret_cast<const OrtCustomOp*>(Base()); }

 private:
  const CustomOpTable* Base() const { return this; }
  static const PackOperator& Self(const OrtCustomOp* self) {
    return static_cast<const PackOperator&>(*reinterpret_cast<const CustomOpTable*>(self));
  }
  std::int32_t TypeOf(const OpgraftParameter& parameter) const {
    return kernel_.types[parameter.type];
  }
  bool IsForGpu() const;
  bool MayInfer() const;
  Status Create(const OrtKernelInfo* info, void** made) const;
  Status Infer(OrtShapeInferContext* context) const;

  const Runtime runtime_;
  const OpgraftOperator& declaration_;
  const OpgraftKernel& kernel_;
  const std::string name_;
  const char* const provider_;
};

using PackOperators = std::vector<std::unique_ptr<PackOperator>>;

/// Appends the kernels of an operator whose nodes have the operator type `name`.
void AddKernels(const Runtime& runtime, const OpgraftOperator& declaration, const std::string& name,
                PackOperators* operators);

}  // namespace opgraft::ort
