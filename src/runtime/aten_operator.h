// The custom operator that makes ATen nodes known to ONNX Runtime.
#pragma once

#include <memory>

#include "adapter/custom_op.h"
#include "adapter/runtime.h"
#include "core/policy.h"

namespace opgraft::ort {

/// org.pytorch.aten::ATen: any inputs and any outputs; on the CPU, or on a GPU by OpgraftCUDA.
struct AtenOperator : CustomOpTable {
  const Runtime runtime;
  const std::shared_ptr<const Policy> policy;

  AtenOperator(const Runtime& runtime, std::shared_ptr<const Policy> policy, bool is_for_gpu);
};

}  // namespace opgraft::ort
