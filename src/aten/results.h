// Copies results of the dispatcher to the outputs of a node, with one copy at most.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "aten/call.h"
#include "aten/encoding.h"
#include "aten/libtorch.h"
#include "aten/tensors.h"
#include "opgraft/status.h"

namespace opgraft::aten {

/// Copies `tensor` to output `index`, for which the node has the declaration `declared`. The
/// outputs are on the device, the tensor is there or on the CPU. The caller keeps the tensor.
Status StoreTensor(const Libtorch& libtorch, const Device& device, const DtypeNumbers& dtypes,
                   Tensor tensor, const WrittenResult::Tensor& declared, const Taking& taking,
                   const std::string& who, std::size_t index, Outputs& outputs);

}  // namespace opgraft::aten
