// The custom operator by which ONNX Runtime knows ATen nodes.
#pragma once

#include <memory>

#include "core/policy.h"
#include "ort/custom_op.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// org.pytorch.aten::ATen: any inputs, any outputs; on the CPU, or on the GPU of OpgraftCUDA.
struct AtenOperator : CustomOpTable {
  const Runtime runtime;
  const std::shared_ptr<const Policy> policy;

  AtenOperator(const Runtime& runtime, std::shared_ptr<const Policy> policy, bool is_for_gpu);
};

}  // namespace opgraft::ort
