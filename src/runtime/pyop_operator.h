// The custom operators of the domain ai.opgraft, which make canonical nodes known to ONNX Runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adapter/custom_op.h"
#include "adapter/runtime.h"
#include "core/policy.h"
#include "runtime/pyop_kernel.h"

namespace opgraft::ort {

/// One operator as the runtime sees it: PyOp, or a PyOpLike for one element type; on the CPU or on
/// a GPU.
struct PyOp : CustomOpTable {
  const Runtime runtime;
  const std::shared_ptr<const Policy> policy;
  const std::shared_ptr<const workers::Options> isolation;  ///< nullptr: operators run in-process
  const std::string name;
  const int type;             ///< of the first input and the leading outputs; 0 for PyOp
  const std::size_t leading;  ///< how many outputs have it; 0 for PyOp, and for PyOpLike: all
  const PyOpDevice device;

  PyOp(const Runtime& runtime, std::shared_ptr<const Policy> policy,
       std::shared_ptr<const workers::Options> isolation, std::string name, int type,
       std::size_t leading, PyOpDevice device);
};

using PyOpFamily = std::vector<std::unique_ptr<PyOp>>;

/// Creates PyOp, and PyOpLike with and without numbers for every type that the runtime carries;
/// PyOpCuda likewise, for OpgraftCUDA and, to be refused with a reason, for the CPU. A runtime only
/// infers the types of outputs by such overloads: without them, the model would have to declare the
/// types, or shape inference would have to set them together with a shape.
PyOpFamily MakePyOpFamily(const Runtime& runtime, const std::shared_ptr<const Policy>& policy,
                          const std::shared_ptr<const workers::Options>& isolation);

}  // namespace opgraft::ort
