// An operator declared in Python as a custom operator under its own name.
#pragma once

#include <memory>

#include "adapter/custom_op.h"
#include "adapter/runtime.h"
#include "core/policy.h"
#include "core/schema.h"

namespace opgraft::ort {

/// The types of its outputs are fixed, and all its inputs are required. Its nodes are as the model
/// has them, while those of PyOp are canonical.
struct DeclaredOperator : CustomOpTable {
  const Runtime runtime;
  const std::shared_ptr<const Policy> policy;
  const std::shared_ptr<const Schema> schema;

  DeclaredOperator(const Runtime& runtime, std::shared_ptr<const Policy> policy,
                   std::shared_ptr<const Schema> schema);
};

}  // namespace opgraft::ort
