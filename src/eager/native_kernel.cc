// A pack's kernel on tensors of torch's, in their own memory and into memory that becomes torch's.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/memory_host.h"
#include "eager/kernel.h"
#include "eager/tensors.h"
#include "pyop/exit_gate.h"
#include "pyop/native_arguments.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

/// Where the outputs of a call go.
class TorchOutputs final : public OutputReceiver {
 public:
  explicit TorchOutputs(std::size_t count) : outputs_(count) {}

  void* Allocate(std::size_t index, std::int32_t element_type,
                 std::span<const std::int64_t> shape) override {
    return outputs_[index].Allocate(element_type, shape) ? outputs_[index].data() : nullptr;
  }
  void Store(std::size_t, std::span<const std::int64_t>, std::span<const OpgraftText>) override {}

  std::vector<OutputTensor>& outputs() { return outputs_; }

 private:
  std::vector<OutputTensor> outputs_;
};

class NativeFunction final : public Prepared {
 public:
  NativeFunction(std::shared_ptr<const Schema> schema, std::vector<std::int64_t> types,
                 std::size_t outputs, std::unique_ptr<NativeKernel> kernel)
      : Prepared(std::move(types)),
        schema_(std::move(schema)),
        outputs_(outputs),
        kernel_(std::move(kernel)) {}

  Status Run(Inputs& inputs, const dlpack::Exchange& exchange,
             std::vector<nb::object>* outputs) override {
    std::vector<OpgraftTensor> tensors(inputs.objects.size());
    static char nothing;  // an empty tensor has no memory, but is there
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (inputs.objects[i] == nullptr) continue;
      if (!IsContiguous(inputs.tensors[i])) MakeContiguous(&inputs, i, exchange);
      const dlpack::Tensor& tensor = inputs.tensors[i];
      void* const data = DataOf(tensor);
      tensors[i] = {data != nullptr ? data : &nothing, tensor.shape,
                    static_cast<std::size_t>(tensor.rank),
                    static_cast<std::int32_t>(inputs.types[i])};
    }
    TorchOutputs made(outputs_);
    Status status;
    pyop::WithoutGil([&] {
      try {
        status = kernel_->Run(tensors, made);
      } catch (const std::bad_alloc&) {
        status = Status::Error(schema_->FullName() + ": out of memory");
      }
    });
    if (!status.ok()) return status;
    outputs->reserve(outputs_);
    for (std::size_t i = 0; i < outputs_; ++i) {
      if (!made.outputs()[i].is_there()) {
        return Status::Error(schema_->FullName() + ": its kernel has not given output " +
                             std::to_string(i));
      }
      PyObject* const tensor = made.outputs()[i].Give(exchange);
      if (tensor == nullptr) throw nb::python_error();
      outputs->push_back(nb::steal(tensor));
    }
    return Status();
  }

 private:
  /// A copy, made by torch.
  static void MakeContiguous(Inputs* inputs, std::size_t index, const dlpack::Exchange& exchange) {
    const nb::object whole = nb::handle(inputs->objects[index]).attr("contiguous")();
    if (exchange.view_from_object(whole.ptr(), &inputs->tensors[index]) != 0) {
      throw nb::python_error();
    }
    inputs->kept.push_back(whole);
  }

  const std::shared_ptr<const Schema> schema_;
  const std::size_t outputs_;
  const std::unique_ptr<NativeKernel> kernel_;
};

}  // namespace

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
