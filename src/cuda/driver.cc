// Looks for the driver's library, and its functions, by name.
#include "cuda/driver.h"

#include <cstdlib>
#include <iterator>

#include "core/platform.h"

namespace opgraft::cuda {
namespace {

/// Tests set this to replace the driver by another library.
constexpr char kDriverVariable[] = "OPGRAFT_CUDA_DRIVER";
constexpr char kDriverLibrary[] = "libcuda.so.1";

/// In the order of Driver's members.
constexpr const char* kNames[] = {"cuInit",
                                  "cuGetErrorName",
                                  "cuGetErrorString",
                                  "cuDeviceGetCount",
                                  "cuDeviceGet",
                                  "cuDeviceGetName",
                                  "cuDeviceGetAttribute",
                                  "cuDeviceTotalMem_v2",
                                  "cuDevicePrimaryCtxRetain",
                                  "cuCtxGetCurrent",
                                  "cuCtxSetCurrent",
                                  "cuCtxSynchronize",
                                  "cuStreamCreate",
                                  "cuStreamSynchronize",
                                  "cuStreamIsCapturing",
                                  "cuThreadExchangeStreamCaptureMode",
                                  "cuMemPoolCreate",
                                  "cuMemPoolSetAttribute",
                                  "cuMemPoolTrimTo",
                                  "cuMemAllocFromPoolAsync",
                                  "cuMemFreeAsync",
                                  "cuMemHostAlloc",
                                  "cuMemFreeHost",
                                  "cuMemcpyAsync",
                                  "cuPointerGetAttribute"};
static_assert(sizeof(Driver) == std::size(kNames) * sizeof(void*));

Status Load(Driver* driver) {
  const char* const given = std::getenv(kDriverVariable);
  const std::string path = given != nullptr ? given : kDriverLibrary;
  void* library = nullptr;
  if (Status status = platform::LoadLibrary(path, /*is_global=*/false, &library); !status.ok()) {
    return Status::Unavailable("there is no driver of CUDA (" + status.message() +
                               "). Fix: use a machine with an NVIDIA GPU, and install its driver");
  }
  auto* const functions = reinterpret_cast<void**>(driver);
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    functions[i] = platform::FindSymbol(library, kNames[i]);
    if (functions[i] != nullptr) continue;
    return Status::Unavailable("the driver of CUDA, " + path + ", is too old: it has no function " +
                               kNames[i] + ". Fix: install one for CUDA 11.4 or newer");
  }
  return Check(*driver, driver->Init(0), "start");
}

}  // namespace

const Status& LoadDriver(const Driver** driver) {
  static Driver loaded;
  static const auto* const status = new Status(Load(&loaded));  // outlives every static object
  *driver = status->ok() ? &loaded : nullptr;
  return *status;
}

Status Check(const Driver& driver, int result, std::string_view what) {
  if (result == kSuccess) return Status();
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.GetErrorName(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  if (driver.GetErrorString(result, &text) != kSuccess || text == nullptr) text = "";
  std::string message = "CUDA cannot " + std::string(what) + ": " + text + " (" + name + ", " +
                        std::to_string(result) + ")";
  if (result == kNotInitialized) {
    message +=
        ". CUDA cannot be used in a process that was forked after CUDA had started. Fix: start a "
        "new process, in Python with multiprocessing's \"spawn\"";
  }
  return Status::Unavailable(message);
}

}  // namespace opgraft::cuda
