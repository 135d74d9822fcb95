// Rules for operators on a GPU: whose arguments are checked first, and which run on the CPU.
//
// A kernel for the CPU refuses an index beyond its tensor. A kernel for CUDA fails an assertion on
// the device, after which nothing in the process can use the GPU any more. So the numbers are
// copied to the CPU and checked there before the call.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "aten/guards.h"
#include "aten/schema.h"

namespace opgraft::aten {

/// How an operator is checked on a GPU.
struct GpuRule {
  std::string_view name;  ///< of the operator, with or without its overload: "bernoulli.p"
  Guard guard = nullptr;
  std::array<std::string_view, 2> read;  ///< the arguments whose numbers the guard reads; or ""
};

/// Returns the rule for an operator. An operator without a rule of its own gets its guard for the
/// CPU, which then only looks at shapes and at the numbers in the node's text.
GpuRule FindGpuRule(const Schema& schema);

/// Whether an operator runs on the CPU, on copies: libtorch has no kernel for CUDA, or one that
/// trusts numbers which only the kernel for the CPU checks.
bool RunsOnHost(const Schema& schema);

/// Whether an argument must be a tensor on the CPU, wherever the others lie.
bool IsOnHost(const Schema& schema, std::string_view parameter);

/// Whether a number may stay on the CPU as a tensor without dimensions, as in eager torch: true of
/// elementwise operators with two operands.
bool TakesNumbersOfHost(std::string_view operator_name);

/// All rules, for tests.
std::span<const GpuRule> AllGpuRules();

}  // namespace opgraft::aten
