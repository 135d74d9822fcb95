// Fills in OrtCustomOp for an operator, and creates and runs its kernels.
#include "adapter/pack_operator.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <utility>

#include "adapter/calls.h"
#include "adapter/pack_call.h"
#include "adapter/pack_inference.h"
#include "adapter/pack_node.h"
#include "adapter/running.h"
#include "adapter/tensors.h"
#include "base/element_type.h"
#include "base/pack_error.h"
#include "base/text.h"

namespace opgraft::ort {
namespace {

/// The kernel of one node.
struct PackKernel {
  Runtime runtime;
  const OpgraftKernel* kernel = nullptr;
  void* state = nullptr;
  std::string who;
  std::vector<std::int32_t> output_types;
  std::unique_ptr<Device> device;  ///< nullptr for the CPU

  PackKernel() = default;
  PackKernel(const PackKernel&) = delete;
  PackKernel& operator=(const PackKernel&) = delete;
  ~PackKernel() {
    if (state != nullptr) kernel->destroy(state);
  }

  Status Compute(OrtKernelContext* context) const {
    PackCall call(runtime, context, output_types, device.get());
    const Running running([this] { return who; });
    const int returned = kernel->compute(state, &call);
    return call.errors().Outcome(returned, who);
  }
};

/// The runtime asks which inputs and outputs may share memory through a function that does not get
/// the operator, so that there must be one function for each choice: for each of the first outputs,
/// one of the first inputs or none.
constexpr std::size_t kInPlaceInputs = 4;
constexpr std::size_t kInPlaceOutputs = 2;
constexpr std::size_t kChoices = kInPlaceInputs + 1;

struct InPlacePairs {
  int inputs[kInPlaceOutputs] = {};
  int outputs[kInPlaceOutputs] = {};
  std::size_t count = 0;

  constexpr explicit InPlacePairs(std::size_t choice) {
    for (std::size_t output = 0; output < kInPlaceOutputs; ++output, choice /= kChoices) {
      if (choice % kChoices == 0) continue;
      inputs[count] = static_cast<int>(choice % kChoices - 1);
      outputs[count++] = static_cast<int>(output);
    }
  }
};

template <std::size_t kChoice>
std::size_t MayInPlace(int** inputs, int** outputs) {
  static constinit InPlacePairs pairs(kChoice);  // the runtime reads it, in several threads at once
  *inputs = pairs.inputs;
  *outputs = pairs.outputs;
  return pairs.count;
}

using InPlaceFunction = std::size_t (*)(int**, int**);

template <std::size_t... kChoice>
constexpr std::array<InPlaceFunction, sizeof...(kChoice)> AllInPlace(
    std::index_sequence<kChoice...>) {
  return {&MayInPlace<kChoice>...};
}

InPlaceFunction FindInPlace(const OpgraftOperator& declaration, const std::uint8_t* host_inputs) {
  static constexpr auto kFunctions = AllInPlace(std::make_index_sequence<kChoices * kChoices>());
  std::size_t choice = 0;
  for (std::size_t i = 0; i < declaration.in_place_count; ++i) {
    const OpgraftInPlace& pair = declaration.in_place[i];
    if (pair.input >= kInPlaceInputs || pair.output >= kInPlaceOutputs) continue;
    if (host_inputs != nullptr && host_inputs[pair.input] != 0)
      continue;  // this input is not on the device
    choice += (pair.input + 1) * (pair.output == 0 ? 1 : kChoices);
  }
  return choice > 0 && choice < kFunctions.size() ? kFunctions[choice] : nullptr;
}

/// Whether the operator has a kernel for the CPU that takes the same types as one for a device.
bool HasTwinOnCpu(const OpgraftOperator& declaration, const OpgraftKernel& kernel) {
  for (std::size_t i = 0; i < declaration.kernel_count; ++i) {
    const OpgraftKernel& other = *declaration.kernels[i];
    if (std::strcmp(other.device, "cpu") == 0 &&
        std::equal(kernel.types, kernel.types + declaration.type_count, other.types)) {
      return true;
    }
  }
  return false;
}

int Minimum(const OpgraftParameter* parameters, std::size_t count) {
  const bool is_variadic = count > 0 && parameters[count - 1].occurrence == OPGRAFT_VARIADIC;
  return is_variadic ? static_cast<int>(parameters[count - 1].minimum) : 1;
}

}  // namespace

PackOperator::PackOperator(const Runtime& runtime, const OpgraftOperator& declaration,
                           const OpgraftKernel& kernel, std::string name, const char* provider)
    : runtime_(runtime),
      declaration_(declaration),
      kernel_(kernel),
      name_(std::move(name)),
      provider_(provider) {
  GetName = [](const OrtCustomOp* self) { return Self(self).name_.c_str(); };
  GetExecutionProviderType = [](const OrtCustomOp* self) { return Self(self).provider_; };
  GetInputTypeCount = [](const OrtCustomOp* self) { return Self(self).declaration_.input_count; };
  GetInputType = [](const OrtCustomOp* self, std::size_t index) {
    return static_cast<int>(Self(self).TypeOf(Self(self).declaration_.inputs[index]));
  };
  GetInputCharacteristic = [](const OrtCustomOp* self, std::size_t index) {
    return static_cast<int>(Self(self).declaration_.inputs[index].occurrence);
  };
  GetOutputTypeCount = [](const OrtCustomOp* self) { return Self(self).declaration_.output_count; };
  GetOutputType = [](const OrtCustomOp* self, std::size_t index) {
    return static_cast<int>(Self(self).TypeOf(Self(self).declaration_.outputs[index]));
  };
  GetOutputCharacteristic = [](const OrtCustomOp* self, std::size_t index) {
    return static_cast<int>(Self(self).declaration_.outputs[index].occurrence);
  };
  GetInputMemoryType = [](const OrtCustomOp* self, std::size_t index) {
    constexpr int kInHostMemory = -2;  // OrtMemTypeCPUInput
    const PackOperator& one = Self(self);
    const bool has_list = one.provider_ != nullptr && one.kernel_.host_inputs != nullptr;
    return has_list && one.kernel_.host_inputs[index] != 0 ? kInHostMemory : 0;
  };
  GetVariadicInputMinArity = [](const OrtCustomOp* self) {
    return Minimum(Self(self).declaration_.inputs, Self(self).declaration_.input_count);
  };
  GetVariadicOutputMinArity = [](const OrtCustomOp* self) {
    return Minimum(Self(self).declaration_.outputs, Self(self).declaration_.output_count);
  };
  GetVariadicInputHomogeneity = [](const OrtCustomOp* self) {
    const OpgraftOperator& declaration = Self(self).declaration_;
    if (declaration.input_count == 0) return 1;
    const OpgraftParameter& last = declaration.inputs[declaration.input_count - 1];
    return static_cast<int>(declaration.types[last.type].is_tied);
  };
  GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
  GetStartVersion = [](const OrtCustomOp* self) {
    return static_cast<int>(Self(self).declaration_.since_version);
  };
  GetEndVersion = [](const OrtCustomOp*) { return INT_MAX; };
  GetMayInplace = FindInPlace(declaration, IsForGpu() ? kernel.host_inputs : nullptr);
  ReleaseMayInplace = [](int*, int*) {};
  CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info,
                      void** made) {
    return Guarded(api, [&] { return Self(self).Create(info, made); });
  };
  KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
    const auto* const pack_kernel = static_cast<const PackKernel*>(kernel);
    return Guarded(pack_kernel->runtime.api, [&] { return pack_kernel->Compute(context); });
  };
  KernelDestroy = [](void* kernel) { delete static_cast<PackKernel*>(kernel); };
  if (MayInfer()) {
    InferOutputShapeFn = [](const OrtCustomOp* self, OrtShapeInferContext* context) {
      return Guarded(Self(self).runtime_.api, [&] { return Self(self).Infer(context); });
    };
  }
}

bool PackOperator::IsForGpu() const { return std::strcmp(kernel_.device, "cuda") == 0; }

/// Older runtimes crash in the cases that Runtime::InfersShapes describes. They cannot occur if all
/// inputs and outputs are required, because the runtime has checked by then that all are there.
bool PackOperator::MayInfer() const {
  if (declaration_.infer == nullptr) return false;
  if (runtime_.InfersShapes()) return true;
  for (std::size_t i = 0; i < declaration_.input_count; ++i) {
    if (declaration_.inputs[i].occurrence == OPGRAFT_OPTIONAL) return false;
  }
  for (std::size_t i = 0; i < declaration_.output_count; ++i) {
    if (declaration_.outputs[i].occurrence != OPGRAFT_REQUIRED) return false;
  }
  return true;
}

Status PackOperator::Create(const OrtKernelInfo* info, void** made) const {
  PackNode node(runtime_, info);
  if (Status status = node.Read(declaration_.name); !status.ok()) return status;
  auto kernel = std::make_unique<PackKernel>();
  kernel->runtime = runtime_;
  kernel->kernel = &kernel_;
  kernel->who = "node '" + ReadableName(node.name()) + "', operator " + declaration_.domain +
                "::" + declaration_.name;
  for (std::size_t i = 0; i < declaration_.output_count; ++i) {
    kernel->output_types.push_back(TypeOf(declaration_.outputs[i]));
  }
  // The kernel writes elements of its own types: the runtime must have allocated memory for these.
  const std::size_t outputs = node.table->output_count(&node);
  for (std::size_t i = 0; i < outputs; ++i) {
    OrtTypeInfo* type_info = nullptr;
    OrtStatus* const got = KernelInfo_GetOutputTypeInfo(runtime_.api, info, i, &type_info);
    const std::string who = kernel->who + ": output " + std::to_string(i);
    GraphValue value;
    Status status = ReadValue(runtime_.api, got, type_info, who, &value);
    if (!status.ok()) return status;
    const std::int32_t type = kernel->output_types[std::min(i, kernel->output_types.size() - 1)];
    if (value.element_type != 0 && value.element_type != type) {
      return Status::Model(who + " is " + ElementTypeName(type) + " by its declaration, but " +
                           ElementTypeName(value.element_type) + " in the graph");
    }
  }
  if (IsForGpu() && provider_ == nullptr) {
    return GpuMissing(runtime_, kernel->who + ": it runs on GPUs alone, for these types");
  }
  if (provider_ != nullptr) {
    Status status = Device::Find(runtime_, info, &kernel->device);
    if (!status.ok()) return Status(status.kind(), kernel->who + ": " + status.message());
  }
  const Running making([&] { return "the creation of " + kernel->who; });
  const int returned = kernel_.create(&kernel_, &node, &kernel->state);
  if (returned != 0) kernel->state = nullptr;
  Status status = node.errors().Outcome(returned, kernel->who);
  if (status.ok()) *made = kernel.release();
  return status;
}

/// The runtime drops errors of inference; they are reported again when the kernel is created or
/// run.
Status PackOperator::Infer(OrtShapeInferContext* context) const {
  PackInference inference(runtime_, context, declaration_.name);
  if (Status status = inference.Read(); !status.ok()) return status;
  const int returned = declaration_.infer(&declaration_, &inference);
  return inference.errors().Outcome(returned, declaration_.name);
}

void AddKernels(const Runtime& runtime, const OpgraftOperator& declaration, const std::string& name,
                PackOperators* operators) {
  for (std::size_t i = 0; i < declaration.kernel_count; ++i) {
    const OpgraftKernel& kernel = *declaration.kernels[i];
    const auto add = [&](const char* provider) {
      operators->push_back(
          std::make_unique<PackOperator>(runtime, declaration, kernel, name, provider));
    };
    if (std::strcmp(kernel.device, "cpu") == 0) {
      add(nullptr);
    } else if (std::strcmp(kernel.device, "cuda") == 0) {
      add(kRuntimeCudaProvider);
      if (runtime.version >= kOldestCudaRuntime) add(kCudaProvider);
      if (!HasTwinOnCpu(declaration, kernel)) add(nullptr);  // only to say that a GPU is missing
    }
  }
}

}  // namespace opgraft::ort
