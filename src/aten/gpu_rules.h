// What is different for operators on a GPU: which check their arguments, which run on the CPU.
//
// A kernel for the CPU refuses an index that leads beyond its tensor. One for CUDA ends with an
// assertion on the device, after which nothing in the process can use the GPU any more. So the
// numbers are looked at before, as the few are that the host has to know anyway.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "aten/guards.h"
#include "aten/schema.h"

namespace opgraft::aten {

/// How an operator is checked on a GPU.
struct GpuRule {
  std::string_view name;  ///< of the operator, or with its overload: "bernoulli.p"
  Guard guard = nullptr;
  std::array<std::string_view, 2> read;  ///< the arguments whose numbers the guard reads; or ""
};

/// The rule for an operator. Without one of its own: its guard on the CPU, which only looks at
/// shapes and at numbers of the node.
GpuRule FindGpuRule(const Schema& schema);

/// Whether an operator runs on copies in the memory of the host: libtorch has no kernel for CUDA,
/// or one that believes numbers which only the kernel for the CPU checks.
bool RunsOnHost(const Schema& schema);

/// Whether an argument has to be a tensor on the CPU, whatever the others are.
bool IsOnHost(const Schema& schema, std::string_view parameter);

/// Whether a number may stay on the CPU as a tensor of no dimensions: for operators that take each
/// pair of elements, as eager torch does.
bool TakesNumbersOfHost(std::string_view operator_name);

/// All rules, for tests.
std::span<const GpuRule> AllGpuRules();

}  // namespace opgraft::aten
