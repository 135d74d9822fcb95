// Asks the library before it is registered, because it knows why it cannot be used.
#include "gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime_status.h"

namespace opgraft::op_test {
namespace {

constexpr const char kVariable[] = "OPGRAFT_TEST_CUDA";
constexpr const char kProvider[] = "OpgraftCUDA";

}  // namespace

Status FindFirstGpu(const OrtApi* api, OrtEnv* environment, const OrtEpDevice** gpu) {
  const char* const given = std::getenv(kVariable);
  const std::string path = given != nullptr ? given : "";
  if (path.empty() || path == "0") {
    return Status::Unavailable("the variable " + std::string(kVariable) +
                               " does not name libopgraft_cuda.so");
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status::Unavailable(std::string(kVariable) + ": " + dlerror());
  const auto ask = reinterpret_cast<const char* (*)()>(dlsym(library, "opgraft_cuda_problem"));
  if (ask == nullptr) {
    return Status::Unavailable(std::string(kVariable) + "=" + path + " is not OpgraftCUDA");
  }
  if (const std::string problem = ask(); !problem.empty()) return Status::Unavailable(problem);
  Status status = ToStatus(
      api, ort::RegisterExecutionProviderLibrary(api, environment, kProvider, path.c_str()));
  const OrtEpDevice* const* devices = nullptr;
  std::size_t count = 0;
  if (status.ok()) {
    status = ToStatus(api, ort::GetEpDevices(api, environment, &devices, &count));
  }
  for (std::size_t i = 0; status.ok() && i < count; ++i) {
    if (std::strcmp(ort::EpDevice_EpName(api, devices[i]), kProvider) != 0) continue;
    *gpu = devices[i];
    return Status();
  }
  return status.ok() ? Status::Unavailable("OpgraftCUDA finds no GPU") : status;
}

}  // namespace opgraft::op_test
