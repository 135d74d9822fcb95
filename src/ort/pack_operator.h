// The operators of packs, as ONNX Runtime knows custom operators: one for each kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/custom_op.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// One kernel of an operator. What it is made from must outlive it.
class PackOperator : public CustomOpTable {
 public:
  /// `name` is what nodes call it, which may differ from the operator's own; `provider` is what
  /// runs a kernel for a device, nullptr for the CPU. For the CPU a kernel for a device can only
  /// tell that it is one.
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

/// Appends the kernels of an operator that is called `name` in models.
void AddKernels(const Runtime& runtime, const OpgraftOperator& declaration, const std::string& name,
                PackOperators* operators);

}  // namespace opgraft::ort
