// A C++ program that opens a model with OpgraftCUDA and another plugin provider, in both orders:
//     two_providers libonnxruntime.so OTHER_PROVIDER.so PACK MODEL
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>

#include <cstdio>
#include <cstring>

namespace ort = opgraft::ort;

namespace {

constexpr char kOther[] = "CUDAExecutionProvider";

void UseOther(const OrtApi* api, OrtEnv* environment, OrtSessionOptions* options) {
  const OrtEpDevice* const* devices = nullptr;
  std::size_t count = 0;
  ort::GetEpDevices(api, environment, &devices, &count);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strcmp(ort::EpDevice_EpName(api, devices[i]), kOther) != 0) continue;
    ort::SessionOptionsAppendExecutionProvider_V2(api, options, environment, &devices[i], 1,
                                                  nullptr, nullptr, 0);
    return;
  }
}

}  // namespace

int main(int, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  auto* const get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  const OrtApiBase* const base = get_base();
  const OrtApi* const api = ort::GetApi(base, ort::kApiVersion);
  OrtEnv* environment = nullptr;
  ort::CreateEnv(api, /*fatal*/ 4, "two_providers", &environment);
  ort::RegisterExecutionProviderLibrary(api, environment, kOther, arguments[2]);
  if (!opgraft::Load(arguments[3]).ok()) return std::printf("the pack is not loaded\n"), 1;
  for (const char* const order : {"other", "ours", "ours other", "other ours"}) {
    OrtSessionOptions* options = nullptr;
    OrtSession* session = nullptr;
    ort::CreateSessionOptions(api, &options);
    if (std::strncmp(order, "other", 5) == 0) UseOther(api, environment, options);
    opgraft::Status status;
    if (std::strstr(order, "ours") != nullptr)
      status = opgraft::UseCuda(base, environment, options);
    if (std::strcmp(order, "ours other") == 0) UseOther(api, environment, options);
    if (status.ok()) {
      status = opgraft::CreateSession(base, environment, arguments[4], options, {}, &session);
    }
    std::printf("%s: %s\n", order, status.ok() ? "opened" : status.ToString().c_str());
    if (session != nullptr) ort::ReleaseSession(api, session);
    ort::ReleaseSessionOptions(api, options);
  }
  return 0;
}
