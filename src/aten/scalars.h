// Other ways to pass Scalars, which libtorch's dispatcher does not take from C.
#pragma once

#include <optional>
#include <string>

#include "aten/cuda_part.h"
#include "aten/libtorch.h"
#include "aten/schema.h"

namespace opgraft::aten {

/// A C function of libtorch for one operator. Unlike the dispatcher it does not take over its
/// arguments. A Scalar is passed as the bits of a double.
struct ScalarFunction {
  void* function = nullptr;
  Failure (*call)(const Libtorch& libtorch, void* function, const Value* values,
                  Tensor* result) = nullptr;
};

/// Returns the overload of the same operator that takes tensors where this one takes Scalars;
/// nullopt if there is none.
std::optional<std::string> FindTensorOverload(const Schema& schema);

/// Returns an empty ScalarFunction if there is none. `gpu`: the part for CUDA, nullptr for the CPU.
ScalarFunction FindScalarFunction(const Libtorch& libtorch, const CudaPart* gpu,
                                  const Schema& schema);

}  // namespace opgraft::aten
