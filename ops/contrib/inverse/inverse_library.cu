// Inverts the largest matrices with cuSOLVER, if the process or the machine has it.
#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/contrib/inverse/inverse_parts.cuh"

namespace opgraft::contrib {
namespace {

// As declared in cusolverDn.h. Status 0 means success, operation 0 no transposition.
using Handle = void*;
template <class Real>
struct Functions {
  int (*size)(Handle, int rows, int columns, Real*, int stride, int* count) = nullptr;
  int (*factor)(Handle, int rows, int columns, Real*, int stride, Real* work, int* pivots,
                int* info) = nullptr;
  int (*solve)(Handle, int operation, int n, int columns, const Real* factors, int stride,
               const int* pivots, Real*, int its_stride, int* info) = nullptr;
};

/// Returns the folders of NVIDIA's Python packages beside this library, and of the toolkit.
std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  Dl_info own = {};
  if (dladdr(reinterpret_cast<const void*>(&Folders), &own) != 0 && own.dli_fname != nullptr) {
    std::error_code ignored;
    std::filesystem::path folder = std::filesystem::absolute(own.dli_fname, ignored);
    for (int up = 0; up < 4 && folder.has_relative_path(); ++up) {
      folder = folder.parent_path();
      for (const char* const inner : {"cu13/lib", "cusolver/lib", "cu12/lib"}) {
        folders.push_back(folder / "nvidia" / inner);
      }
    }
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  return folders;
}

void* Open() {
  constexpr const char* kNames[] = {"libcusolver.so.12", "libcusolver.so.11"};
  for (const char* const name : kNames) {
    if (void* const found = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return found;
  }
  for (const char* const name : kNames) {
    if (void* const found = dlopen(name, RTLD_NOW)) return found;
    for (const std::string& folder : Folders()) {
      if (void* const found = dlopen((folder + "/" + name).c_str(), RTLD_NOW)) return found;
    }
  }
  return nullptr;
}

/// Thread-safe. It and its handles are never destroyed, since CUDA may end before them at exit.
class Library {
 public:
  static Library& The() {
    static auto* const library = new Library;
    return *library;
  }

  template <class Real>
  const Functions<Real>& functions() const {
    if constexpr (std::is_same_v<Real, float>) {
      return of_float_;
    } else {
      return of_double_;
    }
  }

  /// Returns the handle for one stream, or null. Streams do not share handles, because a handle has
  /// memory that its work uses.
  Handle HandleFor(CudaStream stream) {
    if (create_ == nullptr) return nullptr;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find({device, stream});
    if (found != handles_.end()) {
      // The stream may be a new one at the address of a destroyed one.
      return found->second != nullptr && set_stream_(found->second, stream) == 0 ? found->second
                                                                                 : nullptr;
    }
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    constexpr std::size_t kMost = 16;
    // Making a handle allocates memory, which is not allowed while the stream is being captured.
    if (handles_.size() == kMost || cudaStreamIsCapturing(stream, &capture) != cudaSuccess ||
        capture != cudaStreamCaptureStatusNone) {
      return nullptr;
    }
    Handle handle = nullptr;
    if (create_(&handle) != 0 || set_stream_(handle, stream) != 0) handle = nullptr;
    handles_[{device, stream}] = handle;
    return handle;
  }

  /// To be locked while a handle is used.
  std::mutex& in_use() { return in_use_; }

 private:
  Library() {
    void* const library = Open();
    if (library == nullptr) return;
    bool has_all = true;
    const auto find = [&](const std::string& name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(library, name.c_str()));
      has_all = has_all && function != nullptr;
    };
    const auto find_all = [&](const std::string& prefix, auto& functions) {
      find(prefix + "getrf_bufferSize", functions.size);
      find(prefix + "getrf", functions.factor);
      find(prefix + "getrs", functions.solve);
    };
    find_all("cusolverDnS", of_float_);
    find_all("cusolverDnD", of_double_);
    find("cusolverDnSetStream", set_stream_);
    find("cusolverDnCreate", create_);
    if (!has_all) create_ = nullptr;
  }

  int (*create_)(Handle*) = nullptr;
  int (*set_stream_)(Handle, CudaStream) = nullptr;
  Functions<float> of_float_;
  Functions<double> of_double_;
  std::mutex mutex_;
  std::map<std::pair<int, CudaStream>, Handle> handles_;
  std::mutex in_use_;
};

constexpr int kThreads = 256;

/// Writes the matrix to factor, and the identity to solve for. One block for each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    PrepareKernel(const T* matrix, Computed<T>* factors, Computed<T>* identity, int n) {
  const std::size_t row = blockIdx.x;
  for (int column = static_cast<int>(threadIdx.x); column < n; column += kThreads) {
    factors[row * n + column] = Widen(matrix[row * n + column]);
    identity[row * n + column] = static_cast<int>(row) == column ? 1 : 0;
  }
}

/// Stores the inverse, or NaN if the matrix is singular. One block for each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    FinishKernel(const Computed<T>* solved, T* inverse, const int* info, int n) {
  const std::size_t row = blockIdx.x;
  const bool is_singular = *info != 0;
  for (int column = static_cast<int>(threadIdx.x); column < n; column += kThreads) {
    inverse[row * n + column] =
        Narrow<T>(is_singular ? ReciprocalOf(Computed<T>{0}) : solved[row * n + column]);
  }
}

}  // namespace

template <class T>
bool InvertByLibrary(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                     const DeviceScratch& scratch, CudaStream stream, CudaError* error) {
  using Real = Computed<T>;
  Library& library = Library::The();
  const Handle handle = library.HandleFor(stream);
  if (handle == nullptr) return false;
  const Functions<Real>& functions = library.functions<Real>();
  const std::lock_guard lock(library.in_use());
  const auto size = static_cast<int>(n);
  int work_count = 0;
  if (functions.size(handle, size, size, nullptr, size, &work_count) != 0) return false;
  // The factors, the inverse, the work memory, the two results of the functions, and the pivots.
  const auto padded = [](std::size_t elements) { return (elements + 63) / 64 * 64; };
  const std::size_t work_size = padded(static_cast<std::size_t>(work_count));
  auto* const factors = static_cast<Real*>(scratch.allocate(
      scratch.self, (2 * padded(n * n) + work_size) * sizeof(Real) + (n + 2) * sizeof(int)));
  if (factors == nullptr) {
    *error = kNoDeviceMemory;
    return true;
  }
  Real* const solved = factors + padded(n * n);
  Real* const work = solved + padded(n * n);
  auto* const info = reinterpret_cast<int*>(work + work_size);
  int* const pivots = info + 2;
  // The library is column-major, so it sees the transposed matrix, whose inverse is the transposed
  // inverse.
  for (std::size_t i = 0; i < count; ++i) {
    *error =
        Launch(PrepareKernel<T>, n, kThreads, stream, matrices + i * n * n, factors, solved, size);
    if (*error != nullptr) return true;
    if (functions.factor(handle, size, size, factors, size, work, pivots, info) != 0 ||
        functions.solve(handle, 0, size, size, factors, size, pivots, solved, size, info + 1) !=
            0) {
      *error = "cuSOLVER could not start the inversion";
      return true;
    }
    *error = Launch(FinishKernel<T>, n, kThreads, stream, solved, inverses + i * n * n, info, size);
    if (*error != nullptr) return true;
  }
  return true;
}

#define OPGRAFT_INSTANTIATE(T)                                                                \
  template bool InvertByLibrary(const T*, T*, std::size_t, std::size_t, const DeviceScratch&, \
                                CudaStream, CudaError*);
OPGRAFT_INSTANTIATE(float)
OPGRAFT_INSTANTIATE(double)
OPGRAFT_INSTANTIATE(__half)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
