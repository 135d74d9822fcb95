// Ways for Scalars, which libtorch's dispatcher does not take from C.
#pragma once

#include <optional>
#include <string>

#include "aten/cuda_part.h"
#include "aten/libtorch.h"
#include "aten/schema.h"

namespace opgraft::aten {

/// A C function of libtorch's for one operator. Unlike the dispatcher it only looks at what it is
/// given; a Scalar is the bits of a double among the values.
struct ScalarFunction {
  void* function = nullptr;
  Failure (*call)(const Libtorch& libtorch, void* function, const Value* values,
                  Tensor* result) = nullptr;
};

/// The overload of the same operator that takes tensors where this one takes Scalars; nullopt where
/// there is none.
std::optional<std::string> FindTensorOverload(const Schema& schema);

/// No function where there is none. `gpu`: the part for CUDA, nullptr for the CPU.
ScalarFunction FindScalarFunction(const Libtorch& libtorch, const CudaPart* gpu,
                                  const Schema& schema);

}  // namespace opgraft::aten
