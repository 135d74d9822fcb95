// Tensors stay on the device, except for numbers that the CPU must read before libtorch is called.
#include "runtime/aten_gpu_kernel.h"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "adapter/calls.h"
#include "adapter/running.h"
#include "adapter/tensors.h"
#include "aten/gpu_rules.h"
#include "runtime/aten_kernel.h"

namespace opgraft::ort {
namespace {

/// The first version of the provider's services that can wait for a stream.
constexpr std::uint32_t kVersionWithSynchronize = 2;

Status Copy(const CudaProvider& provider, void* to, const void* from, std::size_t bytes) {
  const int error = provider.copy(&provider, to, from, bytes);
  if (error == 0) return Status();
  return Status::Error("CUDA cannot copy " + std::to_string(bytes) + " bytes (error " +
                       std::to_string(error) + " of its driver)");
}

/// Copies of inputs in host memory, for one run.
class HostCopies {
 public:
  explicit HostCopies(const CudaProvider& provider) : provider_(provider) {}
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  /// Waits, after an error too: the memory must exist while the device writes to it.
  ~HostCopies() { static_cast<void>(Wait()); }

  Status Add(aten::InputTensor* input) {
    const aten::Dtype* const dtype = aten::FindDtype(input->element_type, false);
    const std::size_t count = aten::Count(input->shape);
    if (dtype == nullptr || count == 0 || input->host_copy != nullptr) return Status();
    const std::size_t bytes = count * static_cast<std::size_t>(dtype->size);
    // Zeros are written first, so that the pages exist when the device writes to them.
    std::vector<std::byte>& copy = copies_.emplace_back(bytes);
    input->host_copy = copy.data();
    is_pending_ = true;
    return Copy(provider_, copy.data(), input->data, bytes);
  }

  /// Waits until all copies are complete.
  Status Wait() {
    if (!is_pending_) return Status();
    is_pending_ = false;
    const int error = provider_.synchronize(&provider_);
    if (error == 0) return Status();
    return Status::Error("CUDA cannot finish the work that computes its inputs (error " +
                         std::to_string(error) + " of its driver)");
  }

 private:
  const CudaProvider& provider_;
  std::vector<std::vector<std::byte>> copies_;
  bool is_pending_ = false;
};

/// The outputs of a node on the device.
class DeviceOutputs : public aten::Outputs {
 public:
  DeviceOutputs(const OrtApi* api, OrtKernelContext* context, std::size_t outputs,
                const CudaProvider& provider)
      : api_(api), context_(context), outputs_(outputs), provider_(provider) {}

  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    *data = nullptr;
    if (index >= outputs_) return Status();
    bool is_wanted = false;
    Status status = AllocateOutput(api_, context_, index, shape, &is_wanted, data);
    if (!status.ok() || !is_wanted || *data != nullptr || aten::Count(shape) == 0) return status;
    // This is how ONNX Runtime tells a kernel on a device that there is no memory.
    return Status::Error("output " + std::to_string(index) + ": " + MemoryProblem(&provider_));
  }
  Status Copy(void* to, const void* from, std::size_t bytes) override {
    return ort::Copy(provider_, to, from, bytes);
  }

 private:
  const OrtApi* const api_;
  OrtKernelContext* const context_;
  const std::size_t outputs_;
  const CudaProvider& provider_;
};

/// The same for a call on the CPU: it writes to host memory, which Flush copies to the device.
class StagedOutputs final : public aten::Outputs {
 public:
  StagedOutputs(DeviceOutputs& device, const std::vector<aten::NodeOutput>& declared)
      : device_(device), declared_(declared) {}

  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    Piece piece;
    Status status = device_.Allocate(index, shape, &piece.to);
    *data = nullptr;
    if (!status.ok() || piece.to == nullptr) return status;
    const int size = aten::FindDtype(declared_[index].element_type, false)->size;
    piece.bytes.resize(aten::Count(shape) * static_cast<std::size_t>(size));
    *data = pieces_.emplace_back(std::move(piece)).bytes.data();
    return status;
  }

  Status Flush() const {
    Status status;
    for (const Piece& piece : pieces_) {
      if (status.ok()) status = device_.Copy(piece.to, piece.bytes.data(), piece.bytes.size());
    }
    return status;
  }

 private:
  struct Piece {
    void* to = nullptr;
    std::vector<std::byte> bytes;
  };

  DeviceOutputs& device_;
  const std::vector<aten::NodeOutput>& declared_;
  std::vector<Piece> pieces_;
};

}  // namespace

Status AtenGpuKernel::Create(const Runtime& runtime, const OrtKernelInfo* info,
                             const Policy& policy, std::unique_ptr<AtenGpuKernel>* kernel) {
  AtenNode node;
  Status status = OpenAtenNode(runtime, info, policy, &node);
  if (!status.ok()) return status;
  std::unique_ptr<AtenGpuKernel> made(new AtenGpuKernel(runtime, node.inputs, node.outputs));
  made->who_ = node.text.Who();
  const auto make = [&](const aten::Gpu* gpu, std::unique_ptr<const aten::Call>* call) {
    return aten::Call::Make(*node.libtorch, gpu, node.text, node.op, node.inputs, node.outputs,
                            call);
  };
  status = make(nullptr, &made->host_call_);
  if (status.ok()) status = CheckOutputs(runtime.api, info, node, made->host_call_->outputs());
  if (!status.ok()) return status;
  status = Device::Find(runtime, info, &made->device_);
  if (status.ok() && (made->device_->provider() == nullptr ||
                      made->device_->provider()->version < kVersionWithSynchronize)) {
    status = Status::Unavailable("OpgraftCUDA is older than this Opgraft. Fix: reinstall Opgraft");
  }
  // The result of an uninitialized operator is zeros, which need no GPU.
  const bool runs_on_host = aten::RunsOnHost(node.op.schema) || node.op.is_uninitialized;
  if (status.ok() && !runs_on_host) {
    status = aten::GetCudaPart(*node.libtorch, &made->gpu_.part);
    made->gpu_.index = made->device_->provider()->device;
  }
  if (!status.ok()) return Status(status.kind(), made->who_ + ": " + status.message());
  // The node itself is right, because host_call_ could be made: what the part for CUDA cannot do
  // runs on the CPU.
  if (!runs_on_host && !make(&made->gpu_, &made->gpu_call_).ok()) made->gpu_call_.reset();
  *kernel = std::move(made);
  return Status();
}

Status AtenGpuKernel::RunOnGpu(OrtKernelContext* context, std::span<aten::InputTensor> inputs,
                               bool* lacks_kernel) const {
  const CudaProvider& provider = *device_->provider();
  HostCopies copies(provider);
  Status status;
  for (std::size_t i = 0; i < inputs.size() && status.ok(); ++i) {
    if (gpu_call_->read_inputs()[i]) status = copies.Add(&inputs[i]);
  }
  if (status.ok()) status = copies.Wait();
  void* stream = nullptr;
  if (status.ok()) status = device_->Stream(context, &stream);
  if (!status.ok()) return Status(status.kind(), who_ + ": " + status.message());
  const aten::OnStream on_stream(gpu_, stream);
  if (!on_stream.ok()) {
    return Status::Unavailable(who_ + ": " + gpu_.part->path + " cannot use GPU " +
                               std::to_string(gpu_.index) +
                               ". Fix: install a torch built for this machine's CUDA and its "
                               "driver (torch.cuda.is_available()), or make the session without "
                               "OpgraftCUDA");
  }
  DeviceOutputs outputs(api(), context, outputs_, provider);
  return gpu_call_->Run(inputs, outputs, lacks_kernel);
}

Status AtenGpuKernel::RunOnHost(OrtKernelContext* context,
                                std::span<aten::InputTensor> inputs) const {
  const CudaProvider& provider = *device_->provider();
  HostCopies copies(provider);
  Status status;
  for (aten::InputTensor& input : inputs) {
    input.host_copy = nullptr;
    if (status.ok()) status = copies.Add(&input);
  }
  if (status.ok()) status = copies.Wait();
  if (!status.ok()) return Status(status.kind(), who_ + ": " + status.message());
  for (aten::InputTensor& input : inputs) {
    if (input.host_copy != nullptr) input.data = input.host_copy;  // else it is empty or strings
    input.is_on_gpu = false;
  }
  DeviceOutputs device_outputs(api(), context, outputs_, provider);
  StagedOutputs outputs(device_outputs, host_call_->outputs());
  status = host_call_->Run(inputs, outputs);
  if (!status.ok()) return status;
  status = outputs.Flush();
  return status.ok() ? status : Status(status.kind(), who_ + ": " + status.message());
}

Status AtenGpuKernel::Compute(OrtKernelContext* context) const {
  std::array<std::byte, 1024> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size());
  std::pmr::vector<aten::InputTensor> inputs(inputs_, &memory);
  Status status = ReadInputs(runtime_, context, &memory, inputs);
  if (!status.ok()) return status;
  for (aten::InputTensor& input : inputs) input.is_on_gpu = true;
  const Running running([this] { return who_; });
  bool lacks_kernel = gpu_call_ == nullptr || lacks_kernel_.load(std::memory_order_relaxed);
  if (!lacks_kernel) status = RunOnGpu(context, inputs, &lacks_kernel);
  if (!lacks_kernel) return status;
  if (gpu_call_ != nullptr) lacks_kernel_.store(true, std::memory_order_relaxed);
  return RunOnHost(context, inputs);
}

}  // namespace opgraft::ort
