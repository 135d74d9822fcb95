// A plugin provider that calls itself CUDAExecutionProvider, as ONNX Runtime's own does, which
// needs a real GPU. It takes every Neg node; they do nothing.
#include <cstring>
#include <vector>

#include "adapter/calls.h"
#include "cuda/tables.h"

namespace {

using opgraft::cuda::FactoryTable;

const OrtApi* runtime = nullptr;
constexpr char kName[] = "CUDAExecutionProvider";

constexpr opgraft::ort::ApiCall<350, const OrtNode*, const char**> GetOperatorType{};
constexpr opgraft::cuda::EpCall<2, OrtEpGraphSupportInfo*, const OrtNode* const*, std::size_t,
                                const void*>
    AddNodesToFuse{};

struct Computation {  // OrtNodeComputeInfo
  std::uint32_t version = opgraft::cuda::kProviderVersion;
  OrtStatus* (*create_state)(Computation*, void*, void**) = nullptr;
  OrtStatus* (*compute)(Computation*, void*, OrtKernelContext*) = nullptr;
  void (*release_state)(Computation*, void*) = nullptr;
};

OrtStatus* TakeNodes(OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  std::size_t count = 0;
  opgraft::cuda::Graph_GetNumNodes(runtime, graph, &count);
  std::vector<const OrtNode*> nodes(count);
  opgraft::cuda::Graph_GetNodes(runtime, graph, nodes.data(), count);
  for (const OrtNode* const node : nodes) {
    const char* type = "";
    GetOperatorType(runtime, node, &type);
    if (std::strcmp(type, "Neg") != 0) continue;
    AddNodesToFuse(opgraft::ort::GetEpApi(runtime), support, &node, 1, nullptr);
  }
  return nullptr;
}

OrtStatus* Compile(OrtEp*, const OrtGraph**, const OrtNode**, std::size_t count,
                   Computation** computations, OrtNode**) {
  static Computation computation;
  computation.create_state = [](Computation*, void*, void**) -> OrtStatus* { return nullptr; };
  computation.compute = [](Computation*, void*, OrtKernelContext*) -> OrtStatus* {
    return nullptr;
  };
  computation.release_state = [](Computation*, void*) {};
  for (std::size_t i = 0; i < count; ++i) computations[i] = &computation;
  return nullptr;
}

opgraft::ort::CudaProvider MakeProvider() {
  opgraft::ort::CudaProvider made;
  made.ort_version = opgraft::cuda::kProviderVersion;
  const auto get_name = +[](const OrtEp*) { return kName; };
  const auto release = +[](OrtEp*, Computation**, std::size_t) {};
  made.slots[opgraft::cuda::kGetName] = reinterpret_cast<void*>(get_name);
  made.slots[opgraft::cuda::kGetCapability] = reinterpret_cast<void*>(TakeNodes);
  made.slots[2] = reinterpret_cast<void*>(Compile);
  made.slots[3] = reinterpret_cast<void*>(release);  // ReleaseNodeComputeInfos
  return made;
}

FactoryTable MakeFactory() {
  FactoryTable factory;
  factory.GetName = [](const FactoryTable*) { return kName; };
  factory.GetVendor = [](const FactoryTable*) { return "a test"; };
  factory.GetVendorId = [](const FactoryTable*) { return std::uint32_t{0}; };
  factory.GetVersion = [](const FactoryTable*) { return "1.0.0"; };
  factory.IsStreamAware = [](const FactoryTable*) { return false; };
  factory.GetSupportedDevices = [](FactoryTable* self, const OrtHardwareDevice* const* hardware,
                                   std::size_t, OrtEpDevice** described, std::size_t,
                                   std::size_t* count) {
    *count = 1;
    return opgraft::cuda::CreateEpDevice(opgraft::ort::GetEpApi(runtime), self, hardware[0],
                                         nullptr, nullptr, described);
  };
  factory.CreateEp = [](FactoryTable*, const OrtHardwareDevice* const*,
                        const OrtKeyValuePairs* const*, std::size_t, const OrtSessionOptions*,
                        const OrtLogger*, OrtEp** made) {
    *made = reinterpret_cast<OrtEp*>(new opgraft::ort::CudaProvider(MakeProvider()));
    return static_cast<OrtStatus*>(nullptr);
  };
  factory.ReleaseEp = [](FactoryTable*, OrtEp* ep) {
    delete reinterpret_cast<opgraft::ort::CudaProvider*>(ep);
  };
  factory.CreateDataTransfer = [](FactoryTable*, opgraft::cuda::DataTransferTable** made) {
    *made = nullptr;
    return static_cast<OrtStatus*>(nullptr);
  };
  factory.CreateAllocator = [](FactoryTable*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                               opgraft::cuda::AllocatorTable** made) {
    *made = nullptr;
    return static_cast<OrtStatus*>(nullptr);
  };
  factory.ReleaseAllocator = [](FactoryTable*, opgraft::cuda::AllocatorTable*) {};
  return factory;
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                        OrtEpFactory** factories, std::size_t, std::size_t* count) {
  static FactoryTable factory = MakeFactory();
  runtime = opgraft::ort::GetApi(base, opgraft::cuda::kProviderVersion);
  factories[0] = reinterpret_cast<OrtEpFactory*>(&factory);
  *count = 1;
  return nullptr;
}

extern "C" OrtStatus* ReleaseEpFactory(OrtEpFactory*) { return nullptr; }

#pragma GCC visibility pop
