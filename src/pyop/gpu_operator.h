// A declared operator of a node that runs on a GPU, and the call of its function there.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pyop/bridge.h"
#include "pyop/callable.h"
#include "pyop/gpu_arrays.h"
#include "pyop/invocation.h"
#include "pyop/session_number.h"
#include "pyop/shape_rule.h"

namespace opgraft::pyop {

class GpuOperator final : public Operator {
 public:
  /// Bridge::create, with a GPU.
  static Status Create(const Spec& spec, const Policy& policy, const Gpu& gpu,
                       std::unique_ptr<Operator>* made);

  GpuOperator(const GpuOperator&) = delete;
  GpuOperator& operator=(const GpuOperator&) = delete;
  ~GpuOperator() override;

  Status Compute(Call& call) noexcept override;

 private:
  GpuOperator(const Spec& spec, const Gpu& gpu) : spec_(spec), gpu_(gpu) {}

  Status ComputeWithGil(Call& call);
  Status MakeArguments(const Call& call, const std::shared_ptr<Loan>& loan,
                       Arguments* arguments) const;
  /// Lets go of the arguments. False where the operator has kept some of them; the loan joins
  /// kept_.
  bool Release(const Arguments& arguments, const std::shared_ptr<Loan>& loan);

  const Spec spec_;
  const std::int64_t session_ = session_in_making;
  const Gpu& gpu_;
  PythonCallable callable_;
  std::optional<ShapeRule> rule_;
  GpuLibrary library_;
  std::vector<std::shared_ptr<Loan>> kept_;  // guarded by the GIL
};

}  // namespace opgraft::pyop
