// The custom operators of domain ai.opgraft, by which ONNX Runtime knows every canonical node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/policy.h"
#include "ort/custom_op.h"
#include "ort/pyop_kernel.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// One operator as the runtime sees it: PyOp, or a PyOpLike for one element type; on the CPU or on
/// a GPU.
struct PyOp : CustomOpTable {
  const Runtime runtime;
  const std::shared_ptr<const Policy> policy;
  const std::string name;
  const int type;             ///< of the first input and the leading outputs; 0 for PyOp
  const std::size_t leading;  ///< how many outputs have it; 0 for PyOp, and for PyOpLike: all
  const PyOpDevice device;

  PyOp(const Runtime& runtime, std::shared_ptr<const Policy> policy, std::string name, int type,
       std::size_t leading, PyOpDevice device);
};

using PyOpFamily = std::vector<std::unique_ptr<PyOp>>;

/// PyOp, and PyOpLike with and without numbers for every type that the runtime carries; PyOpCuda
/// likewise, for the provider of GPUs and, to be refused with a reason, for the CPU. A runtime
/// infers types of outputs only by such overloads: without them it would have to be told them, or
/// be told a shape with them.
PyOpFamily MakePyOpFamily(const Runtime& runtime, const std::shared_ptr<const Policy>& policy);

}  // namespace opgraft::ort
