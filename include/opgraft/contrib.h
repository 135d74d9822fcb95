// Compiles kernels that were written for ONNX Runtime's own tree outside of it. Include this header
// instead of the runtime's headers, and their schemas and kernels form a pack.
//
//   ONNX_CONTRIB_OPERATOR_SCHEMA(Twice)
//       .SetDomain("my.domain")
//       .SinceVersion(1)
//       .Input(0, "X", "any tensor", "T")
//       .Output(0, "Y", "twice as much", "T")
//       .TypeConstraint("T", {"tensor(float)"}, "floats")
//       .TypeAndShapeInferenceFunction(ONNX_NAMESPACE::propagateShapeAndTypeFromFirstInput);
//
//   class Twice final : public onnxruntime::OpKernel { ... Status Compute(OpKernelContext*) const
//   ... };
//
//   ONNX_OPERATOR_KERNEL_EX(Twice, "my.domain", 1, kCpuExecutionProvider,
//                           KernelDefBuilder().TypeConstraint("T",
//                           BuildKernelDefConstraints<float>()), Twice);
//
// docs/contrib.md lists what is supported. New operators are shorter with opgraft/op.h.
#pragma once

#include "opgraft/contrib/inference.h"   // IWYU pragma: export
#include "opgraft/contrib/numbers.h"     // IWYU pragma: export
#include "opgraft/contrib/op_kernel.h"   // IWYU pragma: export
#include "opgraft/contrib/proto.h"       // IWYU pragma: export
#include "opgraft/contrib/schema.h"      // IWYU pragma: export
#include "opgraft/contrib/status.h"      // IWYU pragma: export
#include "opgraft/contrib/tensor.h"      // IWYU pragma: export
#include "opgraft/contrib/threadpool.h"  // IWYU pragma: export
