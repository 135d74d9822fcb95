// Results of the dispatcher on their way into the outputs of a node: one copy at most.
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

/// Puts `tensor` into output `index`, where the node says that it is `said`. The outputs are on the
/// device, the tensor is there or on the CPU. It stays the caller's.
Status StoreTensor(const Libtorch& libtorch, const Device& device, const DtypeNumbers& dtypes,
                   Tensor tensor, const WrittenResult::Tensor& said, const Taking& taking,
                   const std::string& who, std::size_t index, Outputs& outputs);

}  // namespace opgraft::aten
