// All work of a call is put on the stream of the run, where it is done in order; nothing waits.
#include "pyop/gpu_operator.h"

#include <span>
#include <string>
#include <utility>

#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/gil.h"
#include "pyop/gpu_outputs.h"

namespace nb = nanobind;

namespace opgraft::pyop {

Status GpuOperator::Create(const Spec& spec, const Policy& policy, const Gpu& gpu,
                           std::unique_ptr<Operator>* made) {
  std::unique_ptr<GpuOperator> created(new GpuOperator(spec, gpu));
  Status status = WithGil(spec, [&] {
    Status found = MakeCallable(spec, policy, &created->callable_);
    nb::object& rule = created->callable_.rule;
    if (rule.is_valid()) created->rule_.emplace(created->spec_, std::move(rule));
    return found.ok() ? GpuLibrary::Find(spec, gpu, &created->library_) : found;
  });
  if (status.ok()) *made = std::move(created);
  return status;
}

GpuOperator::~GpuOperator() {
  if (Py_IsInitialized() == 0) {  // Python is gone before the session: there is nothing to release
    callable_.compute.release();
    if (rule_) rule_->Forget();
    library_.Forget();
    return;
  }
  const ScopedGil gil;
  callable_ = PythonCallable();
  rule_.reset();
  library_ = GpuLibrary();
}

Status GpuOperator::Compute(Call& call) noexcept {
  const OperatorCall operator_call;
  const InOperatorOf in_operator(session_);
  return WithGil(spec_, [&] { return ComputeWithGil(call); });
}

Status GpuOperator::ComputeWithGil(Call& call) {
  std::erase_if(kept_, [](const std::shared_ptr<Loan>& loan) { return loan->held == 0; });
  if (!kept_.empty()) return StillKeptError(spec_, callable_, library_.HowTo("how_to_copy"));
  std::shared_ptr<const InferredShapes> inferred;
  if (rule_) {
    if (Status status = rule_->Apply(call.inputs(), &inferred); !status.ok()) return status;
  }
  const OnStream on_stream(library_, gpu_.Stream());
  const auto loan = std::make_shared<Loan>();
  Arguments arguments;
  Status status = MakeArguments(call, loan, &arguments);
  if (!status.ok()) return status;
  const std::size_t positional = arguments.size() - 1;
  GpuOutputs outputs(spec_, call, inferred.get(), /*keep_frames=*/callable_.copy_inputs, library_,
                     gpu_, loan);
  if (callable_.takes_out) {
    status = outputs.MakeOut(&arguments);
    if (!status.ok()) {
      Release(arguments, loan);
      return status;
    }
  }
  nb::object returned = Invoke(callable_, positional, &arguments);
  if (!returned.is_valid()) {
    const Failure failure(/*keep_frames=*/callable_.copy_inputs);
    // An exception that holds an argument is not kept: it would outlive the memory.
    const bool is_released = Release(arguments, loan);
    return failure.ToStatus(spec_.Who() + ": " + spec_.Callee(), is_released);
  }
  status = outputs.Store(returned.ptr(), std::span(arguments).subspan(positional + 1));
  returned.reset();
  if (!Release(arguments, loan) && status.ok()) {
    return KeptError(spec_, callable_, library_.HowTo("how_to_copy"));
  }
  return status;
}

Status GpuOperator::MakeArguments(const Call& call, const std::shared_ptr<Loan>& loan,
                                  Arguments* arguments) const {
  arguments->reserve(call.inputs().size() + spec_.output_types.size() + 1);
  arguments->push_back(nullptr);
  for (const TensorView& input : call.inputs()) {
    if (input.data == nullptr) {
      arguments->push_back(Py_NewRef(Py_None));
      continue;
    }
    PyObject* argument = library_.Lend(input, loan);
    if (argument != nullptr && callable_.copy_inputs) {
      const nb::object lent = nb::steal(argument);
      argument = library_.Copy(lent.ptr());
    }
    if (argument == nullptr) {
      for (PyObject* made : *arguments) Py_XDECREF(made);
      return Failure(true).ToStatus(spec_.Who() + ": the array of an input", true);
    }
    arguments->push_back(argument);
  }
  return Status();
}

bool GpuOperator::Release(const Arguments& arguments, const std::shared_ptr<Loan>& loan) {
  for (PyObject* argument : arguments) Py_XDECREF(argument);
  AwaitRelease([&] { return loan->held != 0; });
  if (loan->held == 0) return true;
  kept_.push_back(loan);
  return false;
}

}  // namespace opgraft::pyop
