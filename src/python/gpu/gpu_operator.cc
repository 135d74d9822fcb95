// Lends arrays on the GPU for a call, and counts those that are still held after it.
#include "python/gpu/gpu_operator.h"

namespace nb = nanobind;

namespace opgraft::pyop {

bool GpuPlace::Turn::HoldsArguments() {
  std::erase_if(place_.kept_, [](const std::shared_ptr<Loan>& loan) { return loan->held == 0; });
  return !place_.kept_.empty();
}

void GpuPlace::Turn::Begin(const InferredShapes* inferred) {
  on_stream_.emplace(place_.library_, place_.gpu_.Stream());
  loan_ = std::make_shared<Loan>();
  outputs_.emplace(spec_, call_, inferred, KeepsFrames(), place_.library_, place_.gpu_, loan_);
}

PyObject* GpuPlace::Turn::Make(std::size_t index, Status*) {
  PyObject* const lent = place_.library_.Lend(inputs()[index], loan_);
  if (lent == nullptr || !callable_.copy_inputs) return lent;
  const nb::object original = nb::steal(lent);
  return place_.library_.Copy(lent);
}

bool GpuPlace::Turn::Release(Arguments* arguments) {
  arguments->Clear();
  AwaitRelease([&] { return loan_->held != 0; });
  if (loan_->held == 0) return true;
  place_.kept_.push_back(loan_);
  return false;
}

}  // namespace opgraft::pyop
