// Loads the library. It is hundreds of megabytes, so that only a node that needs it has it loaded.
#include "aten/cuda_part.h"

#include <filesystem>
#include <mutex>
#include <utility>

#include "core/platform.h"

namespace opgraft::aten {
namespace {

constexpr char kCudaLibrary[] = "libtorch_cuda.so";

constexpr char kWhatToDo[] =
    ". Fix: install a torch that is built for this machine's CUDA, 2.10 or newer, or make "
    "the session without OpgraftCUDA, so that ATen nodes run on the CPU";

}  // namespace

void* CudaPart::FindFunction(const char* name) const { return platform::FindSymbol(handle_, name); }

std::string FindCudaPart(const std::string& libtorch) {
  if (libtorch.empty()) return "";
  const std::filesystem::path beside = std::filesystem::path(libtorch).parent_path() / kCudaLibrary;
  std::error_code ignored;
  return std::filesystem::is_regular_file(beside, ignored) ? beside.string() : "";
}

Status LoadCudaPart(const std::string& path, std::int32_t cuda, CudaPart* part) {
  CudaPart made;
  Status status = platform::LoadLibrary(path, /*is_global=*/false, &made.handle_);
  if (!status.ok()) return Status::Unavailable(status.message() + kWhatToDo);
  made.path = path;
  made.cuda = cuda;
  for (const auto& [name, function] :
       {std::pair("aoti_torch_create_cuda_stream_guard",
                  reinterpret_cast<void**>(&made.create_stream_guard)),
        std::pair("aoti_torch_delete_cuda_stream_guard",
                  reinterpret_cast<void**>(&made.delete_stream_guard))}) {
    *function = made.FindFunction(name);
    if (*function == nullptr) {
      return Status::Unavailable(path + " is not libtorch's library for CUDA, or is too old: it " +
                                 "has no " + name + kWhatToDo);
    }
  }
  *part = std::move(made);
  return Status();
}

Status GetCudaPart(const Libtorch& libtorch, const CudaPart** part) {
  static std::mutex mutex;
  static const CudaPart* ready = nullptr;
  const std::lock_guard lock(mutex);
  *part = ready;
  if (ready != nullptr) return Status();
  const std::string path = FindCudaPart(libtorch.path);
  if (path.empty()) {
    return Status::Unavailable(libtorch.path + " belongs to a torch for the CPU only: there is " +
                               "no " + kCudaLibrary + " beside it" + kWhatToDo);
  }
  CudaPart loaded;
  Status status = LoadCudaPart(path, libtorch.FindNumber("device_type", "cuda"), &loaded);
  if (status.ok()) *part = ready = new CudaPart(std::move(loaded));  // never freed, as the library
  return status;
}

}  // namespace opgraft::aten
