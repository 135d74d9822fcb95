// Runs a pack's kernel on torch tensors, in their memory; the outputs' memory is handed to torch.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/memory_host.h"
#include "python/call/dlpack_tensors.h"
#include "python/call/exit_gate.h"
#include "python/call/native_arguments.h"
#include "python/eager/kernel.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

/// libtorch's function: calls `body(first, last, argument)` for parts of a range, in its threads.
using ParallelFor = std::int32_t (*)(std::int64_t first, std::int64_t last, std::int64_t grain,
                                     void (*body)(std::int64_t, std::int64_t, void*),
                                     void* argument);
ParallelFor parallel_for = nullptr;

void LoopInTorch(std::size_t total, void (*body)(void*, std::size_t), void* argument) {
  struct Loop {
    void (*body)(void*, std::size_t);
    void* argument;
  } loop = {body, argument};
  const auto run = [](std::int64_t first, std::int64_t last, void* given) {
    const Loop& own = *static_cast<Loop*>(given);
    for (std::int64_t i = first; i < last; ++i) own.body(own.argument, static_cast<std::size_t>(i));
  };
  parallel_for(0, static_cast<std::int64_t>(total), 1, run, &loop);
}

/// Receives the outputs of a call.
class TorchOutputs final : public OutputReceiver {
 public:
  TorchOutputs(std::size_t count, std::pmr::memory_resource* memory) : outputs_(count, memory) {}

  void* Allocate(std::size_t index, std::int32_t element_type,
                 std::span<const std::int64_t> shape) override {
    return outputs_[index].Allocate(element_type, shape) ? outputs_[index].data() : nullptr;
  }
  void Store(std::size_t, std::span<const std::int64_t>, std::span<const OpgraftText>) override {}

  OutputTensor& operator[](std::size_t index) { return outputs_[index]; }

 private:
  std::pmr::vector<OutputTensor> outputs_;
};

class NativeFunction final : public Prepared {
 public:
  NativeFunction(std::shared_ptr<const Schema> schema, std::vector<std::int64_t> types,
                 std::size_t outputs, std::unique_ptr<NativeKernel> kernel)
      : Prepared(std::move(schema), std::move(types)),
        outputs_(outputs),
        kernel_(std::move(kernel)) {}

  Status Run(Inputs& inputs, const dlpack::Exchange& exchange, Outputs* outputs) override {
    std::pmr::vector<OpgraftTensor> tensors(inputs.all.size(), inputs.memory);
    static char nothing;  // the data of an empty tensor, since nullptr means absent
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Input& input = inputs.all[i];
      if (input.object == nullptr) continue;
      if (!IsContiguous(input.tensor)) MakeContiguous(&inputs, &input, exchange);
      void* const data = DataOf(input.tensor);
      tensors[i] = {data != nullptr ? data : &nothing, input.tensor.shape,
                    static_cast<std::size_t>(input.tensor.rank),
                    static_cast<std::int32_t>(input.type)};
    }
    TorchOutputs made(outputs_, inputs.memory);
    Status status;
    pyop::WithoutGil([&] {
      try {
        status = kernel_->Run(tensors, made, parallel_for != nullptr ? &LoopInTorch : &LoopInOrder);
      } catch (const std::bad_alloc&) {
        status = Status::Error(schema().FullName() + ": out of memory");
      }
    });
    if (!status.ok()) return status;
    outputs->reserve(outputs_);
    for (std::size_t i = 0; i < outputs_; ++i) {
      if (!made[i].is_there()) {
        return Status::Error(schema().FullName() + ": its kernel did not produce output " +
                             std::to_string(i));
      }
      PyObject* const tensor = made[i].Give(exchange);
      if (tensor == nullptr) throw nb::python_error();
      outputs->push_back(nb::steal(tensor));
    }
    return Status();
  }

 private:
  /// Replaces the input by a contiguous copy, which torch makes.
  static void MakeContiguous(Inputs* inputs, Input* input, const dlpack::Exchange& exchange) {
    const nb::object whole = nb::handle(input->object).attr("contiguous")();
    if (exchange.view_from_object(whole.ptr(), &input->tensor) != 0) throw nb::python_error();
    inputs->kept.push_back(whole);
  }

  const std::size_t outputs_;
  const std::unique_ptr<NativeKernel> kernel_;
};

}  // namespace

void SetParallelFor(std::uintptr_t address) {
  parallel_for = reinterpret_cast<ParallelFor>(address);  // NOLINT(performance-no-int-to-ptr)
}

Status PrepareNative(const std::shared_ptr<const Schema>& schema, const nb::dict& attributes,
                     const std::vector<std::int64_t>& types, std::size_t outputs,
                     std::shared_ptr<Prepared>* made) {
  pyop::NativeArguments arguments;
  Status status = arguments.Read(*schema, attributes);
  std::unique_ptr<NativeKernel> kernel;
  if (status.ok()) status = NativeKernel::Make(*schema, types, outputs, arguments.get(), &kernel);
  if (!status.ok()) return status;
  *made = std::make_shared<NativeFunction>(schema, types, outputs, std::move(kernel));
  return Status();
}

}  // namespace opgraft::eager
