// y = x + 1 in float32, written by hand on ONNX Runtime's C table: bench/sdk_overhead.py compares
// an operator of the SDK with it.
#include <cstddef>
#include <cstdint>

#include "adapter/custom_op.h"
#include "opgraft/onnxruntime.h"

namespace {

using namespace opgraft::ort;  // NOLINT(google-build-using-namespace): used throughout

constexpr int kFloat = 1;
const OrtApi* api = nullptr;
bool lends_shapes = false;

OrtStatus* Compute(void*, OrtKernelContext* context) {
  const OrtValue* input = nullptr;
  if (OrtStatus* status = KernelContext_GetInput(api, context, 0, &input)) return status;
  int type = 0;
  const std::int64_t* shape = nullptr;
  std::size_t rank = 0;
  std::int64_t copy[8];
  if (lends_shapes) {
    OrtStatus* status = GetTensorElementTypeAndShapeDataReference(api, input, &type, &shape, &rank);
    if (status != nullptr) return status;
  } else {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    OrtStatus* status = GetTensorTypeAndShape(api, input, &info);
    if (status != nullptr) return status;
    status = GetDimensionsCount(api, info, &rank);
    if (status == nullptr) status = GetDimensions(api, info, copy, rank);
    ReleaseTensorTypeAndShapeInfo(api, info);
    if (status != nullptr) return status;
    shape = copy;
  }
  OrtValue* output = nullptr;
  OrtStatus* status = KernelContext_GetOutput(api, context, 0, shape, rank, &output);
  if (status != nullptr) return status;
  void* from = nullptr;
  void* to = nullptr;
  status = GetTensorMutableData(api, const_cast<OrtValue*>(input), &from);
  if (status == nullptr) status = GetTensorMutableData(api, output, &to);
  if (status != nullptr) return status;
  std::size_t size = 1;
  for (std::size_t i = 0; i < rank; ++i) size *= static_cast<std::size_t>(shape[i]);
  for (std::size_t i = 0; i < size; ++i) {
    static_cast<float*>(to)[i] = static_cast<const float*>(from)[i] + 1;
  }
  return nullptr;
}

struct PlusOne : CustomOpTable {
  PlusOne() {
    GetName = [](const OrtCustomOp*) { return "PlusOne"; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    GetInputTypeCount = [](const OrtCustomOp*) { return std::size_t{1}; };
    GetInputType = [](const OrtCustomOp*, std::size_t) { return kFloat; };
    GetInputCharacteristic = [](const OrtCustomOp*, std::size_t) { return kRequired; };
    GetOutputTypeCount = [](const OrtCustomOp*) { return std::size_t{1}; };
    GetOutputType = [](const OrtCustomOp*, std::size_t) { return kFloat; };
    GetOutputCharacteristic = [](const OrtCustomOp*, std::size_t) { return kRequired; };
    GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return 0; };
    CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*,
                        void** kernel) -> OrtStatus* {
      static int none = 0;
      *kernel = &none;
      return nullptr;
    };
    KernelComputeV2 = &Compute;
    KernelDestroy = [](void*) {};
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) {
  api = GetApi(base, kApiVersion);
  const char* const version = GetVersionString(base);  // such as "1.24.0"
  lends_shapes = version[2] > '2' || (version[2] == '2' && version[3] >= '4');
  static const PlusOne plus_one;
  OrtCustomOpDomain* domain = nullptr;
  OrtStatus* status = CreateCustomOpDomain(api, "by.hand", &domain);
  const auto* const table = static_cast<const CustomOpTable*>(&plus_one);
  if (status == nullptr) {
    status = CustomOpDomain_Add(api, domain, reinterpret_cast<const OrtCustomOp*>(table));
  }
  return status != nullptr ? status : AddCustomOpDomain(api, options, domain);
}
